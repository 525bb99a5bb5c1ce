"""Spark's listener of streaming queries, implemented in Python, and the row of an observation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pyspark.sql import Observation, SparkSession

from headwater.spark.private import JavaObject, accept_calls, jvm_of


class QueryListener(ABC):
    """`PythonStreamingQueryListener`, the private interface behind PySpark's listener: each event as JSON.

    PySpark's own listener rebuilds each event with hundreds of calls into the JVM; its JSON is one call.
    """

    @abstractmethod
    def take(self, kind: str, text: str) -> None:
        """An event, `started`, `progress`, `idle` or `terminated`; Spark waits until this returns."""

    def listen(self, spark: SparkSession) -> Callable[[], None]:
        """Listen to the queries of a session, until what is returned is called."""
        accept_calls(spark)
        wrapper = jvm_of(spark).org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self)
        manager: Any = spark.streams._jsqm
        manager.addListener(wrapper)

        def remove() -> None:
            manager.removeListener(wrapper)

        return remove

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802 (Spark's name)
        self.take("started", event.json())

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802 (Spark's name)
        self.take("progress", event.json())

    def onQueryIdle(self, event: JavaObject) -> None:  # noqa: N802 (Spark's name)
        self.take("idle", event.json())

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802 (Spark's name)
        self.take("terminated", event.json())

    class Java:
        """The Java interface, under the name that py4j looks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def observed_row(observation: Observation) -> JavaObject | None:
    """What was observed so far (`Observation._jo`), waited for a tenth of a second; None if there is nothing.

    `observation.get` would wait for ever if a sink had not read the rows at all.
    """
    row = observation._jo.getRowOrEmpty() if observation._jo else None
    return row.get() if row is not None and row.isDefined() else None
