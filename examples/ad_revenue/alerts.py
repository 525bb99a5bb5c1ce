"""Impressions that cost more than their campaign allows."""

from lib.rules import limit
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, udf
from pyspark.sql.types import DoubleType


@udf(DoubleType())
def limit_of(campaign):
    """Runs on the executors, which also receive `lib`."""
    return limit(campaign)


def alerts(priced: DataFrame) -> DataFrame:
    """The parameter names the table that this one reads."""
    return priced.withColumn("limit", limit_of("campaign")).where(col("cost") > col("limit"))
