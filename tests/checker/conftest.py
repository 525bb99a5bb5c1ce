"""One JVM for all tests of the checker in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import SparkContext

from tests.jvm import shared_context


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """The process's Spark context, on two cores."""
    with shared_context(tmp_path_factory.mktemp("jvm"), lambda line: None) as context:
        yield context
