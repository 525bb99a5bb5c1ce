"""Totals per shop and product, per shop, and overall."""

from pyspark.sql import DataFrame
from pyspark.sql.functions import sum


def rolled(sales: DataFrame) -> DataFrame:
    return sales.rollup("shop", "product").agg(sum("amount").alias("amount"))
