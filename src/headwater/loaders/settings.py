"""Names of Spark's settings, wherever they are given: in the file, in a call, on the command line."""

from __future__ import annotations

from headwater.errors import Place, Problem
from headwater.errors.catalogue.pipelines import SPARK_SETTING_FIXED, SPARK_SETTING_NAME
from headwater.values import nearest

_FIXED = {
    "spark.sql.session.timeZone": "Write `timezone:` at the top level of the file.",
    "spark.sql.streaming.multipleWatermarkPolicy": "Write `watermark_policy:` at the top level of the file.",
    "spark.sql.streaming.checkpointLocation": "Write `folder:` at the top level of the file.",
    "spark.scheduler.mode": "Take it out: each query has a fair pool of its own.",
}
_HADOOP = ("fs.", "dfs.", "hadoop.", "parquet.", "hive.")


def setting_problem(key: str, place: Place | None = None) -> Problem | None:
    """Why a setting can't be given: Spark would pass over its name, or Headwater sets it."""
    if key in _FIXED:
        return SPARK_SETTING_FIXED.at(place, key=key, hint=_FIXED[key])
    if not key.startswith("spark."):
        meant = _meant(key)
        full = "Write the whole name, as Spark's configuration page has it: `spark.sql.shuffle.partitions`."
        return SPARK_SETTING_NAME.at(place, key=key, hint=f"Did you mean `{meant}`?" if meant else full)
    return None


def _meant(key: str) -> str | None:
    """The name that was most likely meant, where that can be told."""
    first, _, rest = key.partition(".")
    if rest and nearest(first, ["spark"]):
        return f"spark.{rest}"
    if key.startswith(_HADOOP):
        return f"spark.hadoop.{key}"
    return f"spark.{key}" if first in ("sql", "driver", "executor", "ui") else None
