"""Alerts for users whose login failed three times in a row within ten minutes."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor

TOO_MANY = 3
SPAN = timedelta(minutes=10)


class FailedLogins(StatefulProcessor):
    """One user: buffers logins until the watermark has passed them, then processes them in order."""

    def init(self, handle) -> None:
        self.handle = handle
        self.waiting = handle.getListState("waiting", "at timestamp, ok boolean")
        self.failures = handle.getListState("failures", "at timestamp")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in rows:
            self.waiting.appendValue((row.at, row.ok))
            self.handle.registerTimer(milliseconds(row.at))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        watermark = timerValues.getCurrentWatermarkInMs()
        waiting = sorted(self.waiting.get())
        due = [login for login in waiting if milliseconds(login[0]) <= watermark]
        keep(self.waiting, waiting[len(due) :])
        failures = [at for (at,) in self.failures.get()]
        for at, ok in due:
            failures = [] if ok else [*(each for each in failures if at - each < SPAN), at]
            if len(failures) == TOO_MANY:
                yield Row(user=key[0], at=at, since=failures[0])
                failures = []
        # Remove failures that are too old for any future alert; set a timer if needed.
        failures = [at for at in failures if milliseconds(at + SPAN) > watermark]
        keep(self.failures, [(at,) for at in failures])
        for at in failures[:1]:
            self.handle.registerTimer(milliseconds(at + SPAN))


def keep(state, values: list) -> None:
    """Replace the list; Spark does not accept an empty one."""
    if values:
        state.put(values)
    else:
        state.clear()


def milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def alerts(logins: DataFrame) -> DataFrame:
    """`at` stays the event time, so that the watermark can close windows over the alerts."""
    return logins.groupBy("user").transformWithState(
        FailedLogins(),
        outputStructType="user string, at timestamp, since timestamp",
        outputMode="append",
        timeMode="eventTime",
        eventTimeColumnName="at",
    )
