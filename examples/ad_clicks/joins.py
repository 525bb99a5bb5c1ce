"""The join of impressions and clicks in Python."""

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr


def clicked_in_python(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """Every impression with each click on it within an hour."""
    on_time = expr("clicked BETWEEN shown AND shown + INTERVAL 1 HOUR")
    same_ad = impressions.ad == clicks.ad
    return impressions.join(clicks, same_ad & on_time, "inner").select(impressions.ad, "shown", "clicked")
