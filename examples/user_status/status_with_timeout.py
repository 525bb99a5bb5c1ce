"""User status with `applyInPandasWithState`: one function, one value, one timeout."""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

HOUR = 60 * 60 * 1000


def follow(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """One user in one batch; a call without rows means that the timeout has expired."""
    (actions,) = state.getOption or (0,)
    if state.hasTimedOut:
        state.remove()
        word = "idle"
    else:
        actions += sum(len(frame) for frame in frames)
        state.update((actions,))
        state.setTimeoutDuration(HOUR)  # every call cancels the previous timeout
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
