"""What a script under check gets in place of a started query: it has ended already, and had nothing to do."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery


class CaughtQuery(StreamingQuery):
    """A query that was judged and never started; whoever waits for its end goes on at once."""

    def __init__(self, name: str | None, frame: DataFrame) -> None:
        self._name = name
        self.frame = frame
        self.over = False
        """Whether the script has waited for its end, or has stopped it."""
        self._id, self._run_id = str(uuid.uuid4()), str(uuid.uuid4())

    @property
    def id(self) -> str:
        return self._id

    @property
    def runId(self) -> str:  # noqa: N802 - PySpark's name
        return self._run_id

    @property
    def name(self) -> str:
        # PySpark says `str` and returns None for a query without a name.
        return self._name  # type: ignore[return-value]

    @property
    def isActive(self) -> bool:  # noqa: N802 - PySpark's name
        return False

    @property
    def status(self) -> dict[str, Any]:
        return {"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802 - PySpark's name
        return []

    @property
    def lastProgress(self) -> None:  # noqa: N802 - PySpark's name
        return None

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 - PySpark's name
        self.over = True
        return None if timeout is None else True

    def processAllAvailable(self) -> None:  # noqa: N802 - PySpark's name
        return None

    def stop(self) -> None:
        self.over = True

    def explain(self, extended: bool = False) -> None:
        self.frame.explain(extended)

    def exception(self) -> None:
        return None


class CaughtQueries:
    """The queries that a script has "started", as `spark.streams` tells of them: all have ended."""

    def __init__(self) -> None:
        self._queries: dict[str, CaughtQuery] = {}

    def add(self, query: CaughtQuery) -> None:
        self._queries[query.id] = query

    def get(self, id: str) -> CaughtQuery | None:
        return self._queries.get(id)

    def end_all(self) -> None:
        """Whoever waits for any of them goes on when none runs."""
        for query in self._queries.values():
            query.over = True
