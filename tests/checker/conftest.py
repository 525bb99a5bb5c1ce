"""One JVM for all tests of the checker in this process."""

from tests.spark.conftest import context

__all__ = ["context"]
