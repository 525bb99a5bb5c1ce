"""One JVM for all tests of the files connector."""

from tests.spark.conftest import context, spark

__all__ = ["context", "spark"]
