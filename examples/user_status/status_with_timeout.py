"""Who is active and who is idle, with `applyInPandasWithState`: one function, one value, one timeout."""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

HOUR = 60 * 60 * 1000


def follow(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """One user in one batch; a call without rows says that the time is over."""
    (actions,) = state.getOption or (0,)
    if state.hasTimedOut:
        state.remove()
        word = "idle"
    else:
        actions += sum(len(frame) for frame in frames)
        state.update((actions,))
        state.setTimeoutDuration(HOUR)  # every call cancels the timeout that was there
        word = "active"
    yield pd.DataFrame({"user": [key[0]], "status": [word], "actions": [actions]})


def status(actions: DataFrame) -> DataFrame:
    return actions.groupBy("user").applyInPandasWithState(
        follow,
        outputStructType="user string, status string, actions int",
        stateStructType="actions int",
        outputMode="update",
        timeoutConf=GroupStateTimeout.ProcessingTimeTimeout,
    )
