"""User status with `transformWithState`: state and timers."""

from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor

HOUR = 60 * 60 * 1000


class Status(StatefulProcessor):
    """One user: active with every action, idle after an hour without one, by the clock."""

    def init(self, handle) -> None:
        self.handle = handle
        self.actions = handle.getValueState("actions", "n int")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        """Called once per batch, with all rows of the user."""
        before = self.actions.get()
        actions = (before[0] if before else 0) + sum(1 for _ in rows)
        self.actions.update((actions,))
        for old in list(self.handle.listTimers()):
            self.handle.deleteTimer(old)
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + HOUR)
        yield Row(user=key[0], status="active", actions=actions)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        """Called after an hour; Spark passes these parameters by name."""
        (actions,) = self.actions.get()
        self.actions.clear()
        yield Row(user=key[0], status="idle", actions=actions)


def status(actions: DataFrame) -> DataFrame:
    """The status of each changed user, with the number of actions since the user was last idle."""
    return actions.groupBy("user").transformWithState(
        Status(),
        outputStructType="user string, status string, actions int",
        outputMode="update",
        timeMode="processingTime",
    )
