"""One JVM and one player for all scripted tests of the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import SparkContext

from headwater.testing.test_runner import TestRunner
from tests.spark.conftest import context

__all__ = ["context", "player"]


@pytest.fixture(scope="session")
def player(context: SparkContext) -> Iterator[TestRunner]:
    """Plays tests of pipelines on the process's JVM."""
    player = TestRunner()
    yield player
    player.close()
