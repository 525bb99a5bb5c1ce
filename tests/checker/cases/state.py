"""State of one's own: `applyInPandasWithState` and both forms of `transformWithState`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.checker.cases import CHANGING, MODES, cases

HDFS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
}
COUNTS = "SELECT word, count(*) AS c FROM events GROUP BY word"
LAST = ("word",)


def counting(frame: Any, mode: str, timeout: str) -> Any:
    """Counts by word as they change."""
    import pandas as pd

    def count(key: Any, frames: Any, state: Any) -> Any:
        total = (state.get[0] if state.exists else 0) + sum(len(each) for each in frames)
        state.update((total,))
        yield pd.DataFrame({"word": [key[0]], "c": [total]})

    grouped = frame.groupBy("word")
    return grouped.applyInPandasWithState(count, "word string, c long", "c long", mode, timeout)


def state_updating(events: Any) -> Any:
    return counting(events, "update", "NoTimeout")


def state_appending(events: Any) -> Any:
    return counting(events, "append", "NoTimeout")


def state_event_time(marked: Any) -> Any:
    return counting(marked, "update", "EventTimeTimeout")


def state_event_time_unmarked(events: Any) -> Any:
    return counting(events, "update", "EventTimeTimeout")


def state_processing_time(events: Any) -> Any:
    return counting(events, "update", "ProcessingTimeTimeout")


def first_of_each(frame: Any) -> Any:
    """The first row of each word: rows that never change."""
    import pandas as pd

    def first(key: Any, frames: Any, state: Any) -> Any:
        if not state.exists:
            state.update((True,))
            yield pd.DataFrame({"word": [key[0]]})

    return frame.groupBy("word").applyInPandasWithState(
        first, "word string", "seen boolean", "append", "NoTimeout"
    )


def state_firsts(events: Any) -> Any:
    return first_of_each(events)


def state_then_counted(events: Any) -> Any:
    return first_of_each(events).groupBy().count()


def state_updates_then_counted(events: Any) -> Any:
    return state_updating(events).groupBy("word").sum("c").withColumnRenamed("sum(c)", "c")


def state_after_counts(events: Any) -> Any:
    return first_of_each(events.groupBy("word").count())


def state_then_windows(marked: Any) -> Any:
    import pandas as pd
    from pyspark.sql.functions import window

    def same(key: Any, frames: Any, state: Any) -> Any:
        for frame in frames:
            yield pd.DataFrame({"word": frame.word, "at": frame["at"]})

    given = marked.groupBy("word").applyInPandasWithState(
        same, "word string, at timestamp", "seen boolean", "append", "NoTimeout"
    )
    return given.groupBy(window("at", "10 minutes")).count()


def transforming(frame: Any, mode: str, time: str, form: str = "row") -> Any:
    """Counts by word as they change, by a StatefulProcessor."""
    import pandas as pd
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor  # type: ignore[attr-defined]

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "c long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N803
            known = self.total.get()
            new = sum(len(each) for each in rows) if form == "pandas" else sum(1 for _ in rows)
            total = (known[0] if known else 0) + new
            self.total.update((total,))
            yield (
                pd.DataFrame({"word": [key[0]], "c": [total]})
                if form == "pandas"
                else Row(word=key[0], c=total)
            )

        def close(self) -> None:
            pass

    grouped = frame.groupBy("word")
    call: Callable[..., Any] = (
        grouped.transformWithStateInPandas if form == "pandas" else grouped.transformWithState
    )
    return call(Counter(), "word string, c long", mode, time)


def processor_updating(events: Any) -> Any:
    return transforming(events, "Update", "None")


def processor_appending(events: Any) -> Any:
    return transforming(events, "Append", "None")


def processor_pandas(events: Any) -> Any:
    return transforming(events, "Update", "None", "pandas")


def processor_processing_time(events: Any) -> Any:
    return transforming(events, "Update", "ProcessingTime")


def timed(frame: Any) -> Any:
    """Counts by word, each given when its timer comes: at 12:00 of event time, or as soon as that is over."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor  # type: ignore[attr-defined]

    class Timer(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.total = handle.getValueState("total", "c long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N803
            known = self.total.get()
            self.total.update(((known[0] if known else 0) + sum(1 for _ in rows),))
            self.handle.registerTimer(1_767_268_800_000)
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N803
            yield Row(word=key[0], c=self.total.get()[0])

        def close(self) -> None:
            pass

    return frame.groupBy("word").transformWithState(Timer(), "word string, c long", "Update", "EventTime")


def processor_event_time(marked: Any) -> Any:
    return timed(marked)


def processor_event_time_unmarked(events: Any) -> Any:
    return timed(events)


def processor_then_counted(events: Any) -> Any:
    return transforming(events, "Update", "None").groupBy("word").sum("c").withColumnRenamed("sum(c)", "c")


def processor_after_counts(events: Any) -> Any:
    return transforming(events.groupBy("word").count(), "Update", "None")


_CASES = [
    *cases("applyInPandasWithState, update", state_updating, MODES, keys=LAST, batch=COUNTS),
    *cases("applyInPandasWithState, append", state_firsts, MODES, batch="SELECT DISTINCT word FROM events"),
    *cases(
        "applyInPandasWithState, update",
        {
            "event time": state_event_time,
            "event time without watermark": state_event_time_unmarked,
            "processing time": state_processing_time,
        },
        ["update"],
        keys=LAST,
        batch=COUNTS,
    ),
    *cases(
        "applyInPandasWithState, update",
        {"processing time": state_processing_time},
        ["update"],
        keys=LAST,
        batch=COUNTS,
        trigger="every 1 second",
    ),
    *cases(
        "aggregation after applyInPandasWithState, append",
        state_then_counted,
        MODES,
        keys=(),
        batch="SELECT count(DISTINCT word) AS count FROM events",
    ),
    *cases(
        "aggregation after applyInPandasWithState, update",
        state_updates_then_counted,
        MODES,
        keys=LAST,
        batch=COUNTS,
    ),
    *cases(
        "applyInPandasWithState after an aggregation",
        state_after_counts,
        MODES,
        batch="SELECT DISTINCT word FROM events",
    ),
    *cases(
        "windows after applyInPandasWithState",
        state_then_windows,
        MODES,
        keys=("window",),
        batch="SELECT window, count(*) AS count FROM marked GROUP BY window(at, '10 minutes')",
    ),
    *cases("transformWithState, update", processor_updating, MODES, keys=LAST, batch=COUNTS),
    *cases("transformWithState, append", processor_appending, CHANGING, keys=LAST, batch=COUNTS),
    *cases("transformWithState, update", {"pandas": processor_pandas}, ["update"], keys=LAST, batch=COUNTS),
    *cases(
        "transformWithState, update",
        {"processing time": processor_processing_time},
        ["update"],
        keys=LAST,
        batch=COUNTS,
        trigger="every 1 second",
    ),
    *cases(
        "transformWithState, update",
        {"event time": processor_event_time, "event time without watermark": processor_event_time_unmarked},
        ["update"],
        keys=LAST,
        batch=COUNTS,
    ),
    *cases(
        "aggregation after transformWithState, update",
        processor_then_counted,
        ["complete"],
        keys=LAST,
        batch=COUNTS,
    ),
    *cases(
        "transformWithState after an aggregation", processor_after_counts, ["update"], keys=LAST, batch=COUNTS
    ),
    *cases(
        "transformWithState, update",
        {"on the HDFS store": processor_updating, "pandas on the HDFS store": processor_pandas},
        ["update"],
        keys=LAST,
        batch=COUNTS,
        settings=HDFS,
    ),
    *cases(
        "applyInPandasWithState, update",
        {"on the HDFS store": state_updating},
        ["update"],
        keys=LAST,
        batch=COUNTS,
        settings=HDFS,
    ),
]
CASES = [replace(case, alone="transformWithState" in case.kind) for case in _CASES]
