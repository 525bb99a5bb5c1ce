"""One JVM for all pages; what its console sink prints goes wherever a command's output goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from pyspark import SparkContext

from tests.jvm import shared_context


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """The process's Spark context, on two cores."""
    with shared_context(tmp_path_factory.mktemp("jvm"), _to_stdout) as context:
        yield context


def _to_stdout(line: str) -> None:
    sys.stdout.write(line + "\n")
