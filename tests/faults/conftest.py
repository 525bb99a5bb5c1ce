"""A JVM for reading results and for the runs that nothing happens to."""

from tests.spark.conftest import context, spark

__all__ = ["context", "spark"]
