"""The same windows in Python."""

from pyspark.sql import DataFrame
from pyspark.sql.functions import count, window


def popular(views: DataFrame) -> DataFrame:
    counts = views.groupBy(window("at", "10 minutes", "5 minutes"), "page").agg(count("*").alias("views"))
    return counts.select("window.start", "page", "views")
