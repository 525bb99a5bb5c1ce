"""Python functions in queries: by rows, by batches of pandas and Arrow, by groups, as aggregates."""

from __future__ import annotations

from typing import Any

from tests.checker.cases import CHANGING, MODES, cases


def row_function(events: Any) -> Any:
    from pyspark.sql.functions import udf

    return events.select(udf(lambda word: word.upper(), "string")("word").alias("word"))


def pandas_function(events: Any) -> Any:
    from pyspark.sql.functions import pandas_udf  # type: ignore[attr-defined]

    def doubled(n: Any) -> Any:
        return n * 2

    import pandas as pd

    doubled.__annotations__ = {"n": pd.Series, "return": pd.Series}
    return events.select("word", pandas_udf(doubled, "int")("n").alias("twice"))


def map_in_pandas(events: Any) -> Any:
    def doubled(frames: Any) -> Any:
        for frame in frames:
            yield frame.assign(n=frame.n * 2)

    return events.mapInPandas(doubled, events.schema)


def map_in_arrow(events: Any) -> Any:
    def same(batches: Any) -> Any:
        yield from batches

    return events.mapInArrow(same, events.schema)


def mean_of(frame: Any, *keys: Any) -> Any:
    import pandas as pd
    from pyspark.sql.functions import pandas_udf  # type: ignore[attr-defined]

    def mean(n: Any) -> Any:
        return n.mean()

    mean.__annotations__ = {"n": pd.Series, "return": float}
    return frame.groupBy(*keys).agg(pandas_udf(mean, "double")("n").alias("mean"))


def pandas_aggregate(events: Any) -> Any:
    return mean_of(events, "word")


def pandas_aggregate_in_windows(marked: Any) -> Any:
    from pyspark.sql.functions import window

    return mean_of(marked, window("at", "10 minutes"))


def pandas_aggregate_without_groups(events: Any) -> Any:
    return mean_of(events)


def arrow_aggregate(events: Any) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    def mean(n: Any) -> Any:
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        return pc.mean(n).as_py()

    mean.__annotations__ = {"n": pa.Array, "return": float}
    return events.groupBy("word").agg(arrow_udf(mean, "double")("n").alias("mean"))


def apply_in_pandas(events: Any) -> Any:
    import pandas as pd

    def summed(key: Any, frame: Any) -> Any:
        return pd.DataFrame({"word": [key[0]], "s": [int(frame.n.sum())]})

    return events.groupBy("word").applyInPandas(summed, "word string, s long")


def apply_in_pandas_in_windows(marked: Any) -> Any:
    import pandas as pd
    from pyspark.sql.functions import window

    def summed(key: Any, frame: Any) -> Any:
        return pd.DataFrame({"word": ["all"], "s": [int(frame.n.sum())]})

    return marked.groupBy(window("at", "10 minutes")).applyInPandas(summed, "word string, s long")


def apply_in_arrow(events: Any) -> Any:
    import pyarrow as pa

    def summed(key: Any, table: Any) -> Any:
        import pyarrow.compute as pc

        return pa.table({"word": [key[0].as_py()], "s": [pc.sum(table["n"]).as_py()]})

    return events.groupBy("word").applyInArrow(summed, "word string, s long")


def cogrouped(events: Any, words: Any) -> Any:
    import pandas as pd

    def counts(left: Any, right: Any) -> Any:
        return pd.DataFrame({"l": [len(left)], "r": [len(right)]})

    return events.groupBy("word").cogroup(words.groupBy("word")).applyInPandas(counts, "l long, r long")


def cogrouped_streams(events: Any, marked: Any) -> Any:
    import pandas as pd

    def counts(left: Any, right: Any) -> Any:
        return pd.DataFrame({"l": [len(left)], "r": [len(right)]})

    return events.groupBy("word").cogroup(marked.groupBy("word")).applyInPandas(counts, "l long, r long")


def aggregated_then_function(events: Any) -> Any:
    from pyspark.sql.functions import udf

    return events.groupBy("word").count().select("word", udf(lambda n: n * 2, "long")("count").alias("twice"))


def aggregated_then_applied(events: Any) -> Any:
    import pandas as pd

    def same(frame: Any) -> Any:
        return pd.DataFrame({"word": frame.word, "count": frame["count"]})

    return events.groupBy("word").count().groupBy("word").applyInPandas(same, "word string, count long")


CASES = [
    *cases("Python function by rows", row_function, MODES),
    *cases("Python function by rows", {"pandas_udf": pandas_function}),
    *cases("Python function by rows", {"pandas_udf": pandas_function}, ["update"]),
    *cases("Python function by rows", {"mapInPandas": map_in_pandas, "mapInArrow": map_in_arrow}),
    *cases(
        "Python function by rows",
        {"after an aggregation": aggregated_then_function},
        CHANGING,
        keys=("word",),
    ),
    *cases("pandas aggregate", pandas_aggregate, MODES, keys=("word",)),
    *cases(
        "pandas aggregate",
        {"in windows": pandas_aggregate_in_windows},
        ["append", "update"],
        keys=("window",),
    ),
    *cases("pandas aggregate", {"without groups": pandas_aggregate_without_groups}, ["complete"]),
    *cases("pandas aggregate", {"arrow": arrow_aggregate}, CHANGING, keys=("word",)),
    *cases("applyInPandas", apply_in_pandas, MODES, keys=("word",)),
    *cases("applyInPandas", {"in windows": apply_in_pandas_in_windows, "applyInArrow": apply_in_arrow}),
    *cases("applyInPandas", {"after an aggregation": aggregated_then_applied}, ["complete"]),
    *cases("applyInPandas", {"after an aggregation": aggregated_then_applied}, ["update"], keys=("word",)),
    *cases("cogroup", {"with static": cogrouped, "of streams": cogrouped_streams}),
]
