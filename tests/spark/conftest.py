"""One JVM for all Spark tests of a process: every api call below finds it and uses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.cluster import Cluster, standalone_cluster
from tests.jvm import shared_context


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """The process's Spark context, on two cores."""
    with shared_context(tmp_path_factory.mktemp("jvm"), lambda line: None) as context:
        yield context


@pytest.fixture
def spark(context: SparkContext) -> SparkSession:
    """A session of its own for one test."""
    return SparkSession(context).newSession()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that the tests use one after another, each with all of its cores."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster") / "processes") as running:
        yield running
