"""What becomes of judged rows: bad ones fail the query, are dropped, kept, or set aside; all are counted."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql.functions import (
    coalesce,
    col,
    concat_ws,
    count,
    count_if,
    lit,
    make_valid_utf8,
    raise_error,
    regexp_replace,
    when,
)

from headwater.connectors.judged import DETAIL, KEPT_REASON, KEPT_TEXT, OWN, REASON, ROW
from headwater.errors.catalogue.bad_rows import BAD_ROW
from headwater.events.counts import BAD, READ
from headwater.spec import SourceSpec
from headwater.values import BadRows


def settled(judged: DataFrame, source: SourceSpec, counted: str | Observation | None) -> DataFrame:
    """The rows that go on, by what the source does with bad ones; all are counted before."""
    good = col(REASON).isNull()
    if counted is not None:
        # The counts also keep Spark from working out a row's columns twice, once to judge and once to use.
        bad = count_if(~good).alias(BAD)
        judged = judged.observe(counted, count(lit(1)).alias(READ), bad)
    match source.bad_rows:
        case BadRows.FAIL:
            judged = judged.where(when(good, True).otherwise(_failure(source)))
        case BadRows.DROP | BadRows.QUARANTINE:
            judged = judged.where(good)
        case BadRows.KEEP:
            text = when(~good, make_valid_utf8(col(ROW)["value"].cast("string")))
            judged = judged.withColumns({KEPT_REASON: col(REASON), KEPT_TEXT: text})
    return judged.drop(*OWN)


def set_aside(judged: DataFrame, source: SourceSpec) -> DataFrame:
    """The bad rows, as the quarantine keeps them."""
    return judged.where(col(REASON).isNotNull()).selectExpr(
        f"'{source.name}' AS source",
        f"{REASON} AS reason",
        f"{DETAIL} AS detail",
        "current_timestamp() AS set_aside_at",
        f"{ROW} AS row",
    )


def _failure(source: SourceSpec) -> Column:
    """Ends the query; the parts of the text stand apart by tabs, for who translates it."""
    row = col(ROW)
    offset = concat_ws(" ", row["topic"], lit("partition"), row["partition"], lit("offset"), row["offset"])
    place = coalesce(row["file"], offset)
    # A value of the user's stands in the detail, which may hold what the parts stand apart by.
    why = concat_ws(", ", col(REASON), regexp_replace(col(DETAIL), r"[\t\r\n]+", " "))
    place = regexp_replace(place, r"[\t\r\n]+", " ")
    return raise_error(concat_ws("\t", lit(BAD_ROW.code), lit(source.name), why, place)).cast("boolean")
