"""What Spark's parser of JSON does not tell of a text."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

_END = "__hw_end"
_LAST = StructType([StructField(_END, StringType())])


def more_follows(text: Column, options: Mapping[str, str]) -> Column:
    """Whether a text goes on behind its first value, which Spark would pass over; also of what is no object.

    The second of two values says that the text is one. It has a hash that no text has of itself: a text might
    bring brackets of its own.
    """
    end = f.xxhash64(text).cast("string")
    whole = f.concat(f.lit("["), text, f.lit(f',{{"{_END}":"'), end, f.lit('"}]'))
    found = f.from_json(whole, ArrayType(_LAST), dict(options))
    return ~((f.size(found) == 2) & f.get(found, f.lit(1))[_END].eqNullSafe(end))
