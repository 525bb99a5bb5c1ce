"""User status with `transformWithStateInPandas`: input and output are pandas DataFrames."""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StatefulProcessor

HOUR = 60 * 60 * 1000


class Status(StatefulProcessor):
    """One user: active with every action, idle after an hour without one, by the clock."""

    def init(self, handle) -> None:
        self.handle = handle
        self.actions = handle.getValueState("actions", "n int")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[pd.DataFrame]:
        before = self.actions.get()
        actions = (before[0] if before else 0) + sum(len(frame) for frame in rows)
        self.actions.update((actions,))
        for old in list(self.handle.listTimers()):
            self.handle.deleteTimer(old)
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + HOUR)
        yield pd.DataFrame({"user": [key[0]], "status": ["active"], "actions": [actions]})

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[pd.DataFrame]:
        (actions,) = self.actions.get()
        self.actions.clear()
        yield pd.DataFrame({"user": [key[0]], "status": ["idle"], "actions": [actions]})


def status(actions: DataFrame) -> DataFrame:
    return actions.groupBy("user").transformWithStateInPandas(
        Status(),
        outputStructType="user string, status string, actions int",
        outputMode="update",
        timeMode="processingTime",
    )
