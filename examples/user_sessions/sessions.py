"""User sessions with the pages of each visit in order, by event time."""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.functions import timestamp_millis, unix_millis
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

GAP = 30 * 60 * 1000

View = tuple[int, str]
"""Time in milliseconds, and page."""


def follow(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Called with new views of a user, or without rows when the watermark has passed the timeout."""
    views: list[View] = list(zip(*state.get, strict=True)) if state.exists else []
    for frame in frames:
        views += zip(frame["ms"].tolist(), frame["page"].tolist(), strict=True)
    waiting: list[View] = []
    for session in sessions_in(sorted(views)):
        # Until the watermark has passed its end, more views of the session can arrive.
        if session[-1][0] + GAP < state.getCurrentWatermarkMs():
            yield as_frame(key[0], session)
        else:
            waiting += session
    if waiting:
        first = next(sessions_in(waiting))
        state.update(tuple(map(list, zip(*waiting, strict=True))))
        state.setTimeoutTimestamp(first[-1][0] + GAP)
    elif state.exists:
        state.remove()


def sessions_in(views: list[View]) -> Iterator[list[View]]:
    """Split ordered views at gaps of half an hour."""
    session: list[View] = []
    for view in views:
        if session and view[0] - session[-1][0] > GAP:
            yield session
            session = []
        session.append(view)
    if session:
        yield session


def as_frame(user: str, session: list[View]) -> pd.DataFrame:
    path = " > ".join(page for _, page in session)
    return pd.DataFrame(
        [[user, session[0][0], session[-1][0], path]], columns=["user", "start", "end", "path"]
    )


def sessions(views: DataFrame) -> DataFrame:
    """One row per closed session."""
    return (
        views.withColumn("ms", unix_millis("at"))
        .groupBy("user")
        .applyInPandasWithState(
            follow,
            outputStructType="user string, start long, end long, path string",
            stateStructType="ms array<long>, page array<string>",
            outputMode="append",
            timeoutConf=GroupStateTimeout.EventTimeTimeout,
        )
        .withColumns({"start": timestamp_millis("start"), "end": timestamp_millis("end")})
    )
