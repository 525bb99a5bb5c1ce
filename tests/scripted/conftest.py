"""One JVM and one player for all scripted tests of the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import SparkContext

from headwater.testing.test_runner import TestRunner
from tests.jvm import STEP_BY_STEP, shared_context


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """The process's Spark context, on two cores."""
    with shared_context(tmp_path_factory.mktemp("jvm"), lambda line: None, **STEP_BY_STEP) as context:
        yield context


@pytest.fixture(scope="session")
def player(context: SparkContext) -> Iterator[TestRunner]:
    """Plays tests of pipelines on the process's JVM."""
    player = TestRunner()
    yield player
    player.close()
