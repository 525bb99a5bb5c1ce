"""`hw.watch`: history, health, metrics and control for hand-written PySpark queries."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from headwater.errors import UsageError
from headwater.loaders.keys import Declaration, Part, Route
from headwater.loaders.validation import read_keys
from headwater.spec.alerts import Alerts
from headwater.spec.connector import Declared
from headwater.spec.history import HistoryKeys
from headwater.values import Position, TextPosition
from headwater.values.user_frames import caller

if TYPE_CHECKING:
    from headwater.engine.session_queries import SparkSession
    from headwater.events import Event
    from headwater.runtime.watch import Watch


def watch(
    spark: SparkSession | None = None,
    *,
    name: str | None = None,
    run_dir: str | Path = ".headwater",
    metrics: str | None = None,
    on_event: Callable[[Event], object] | None = None,
    alerts: Mapping[str, bool | str | Mapping[str, object]] | None = None,
    history: Mapping[str, str | int] | None = None,
) -> Watch:
    """Watch the streaming queries of a session, whether they are started before or after this call.

    Without `spark`, the active session is watched. `name` is shown in `headwater status` (default: the name of
    the Spark application). `metrics` is the address of an endpoint for Prometheus, such as `9464`; `on_event`
    is called with each event. `alerts` and `history` are as in a pipeline. To end the watch, call `stop()`.
    """
    place = caller()
    root = Path(place.file).parent if os.path.exists(place.file) else Path.cwd()
    keys = _keys({"alerts": alerts, "history": history}, place, root)
    # Loaded late: this loads PySpark.
    from headwater.engine.session_queries import SessionQueries, session_of
    from headwater.runtime.observers import Observed
    from headwater.runtime.watch import start_watch

    queries = SessionQueries(session_of(spark, place), root)
    directory = Path(os.path.abspath(Path(run_dir).expanduser()))
    observed = Observed(name or queries.name, directory, keys.alerts, keys.history, metrics=metrics)
    return start_watch(queries, observed, on_event, place)


class WatchKeys(Declared):
    """The arguments of `hw.watch` that are also keys of a pipeline."""

    alerts: Alerts = Field(default_factory=Alerts)
    history: HistoryKeys = Field(default_factory=HistoryKeys)


@dataclass(frozen=True)
class _Call:
    """The position of every argument: that of the call."""

    place: Position

    def of_key(self, route: Route) -> Position:
        return self.place

    def of_value(self, route: Route) -> Position:
        return self.place

    def of_text(self, route: Route) -> TextPosition:
        return TextPosition(self.place, exact=False)


def _keys(given: Mapping[str, object], place: Position, root: Path) -> WatchKeys:
    values = {key: value for key, value in given.items() if value is not None}
    part = Part(values, Declaration(values, _Call(place), root, place.file), (), "`hw.watch`")
    keys, problems, _ = read_keys(WatchKeys, part)
    if keys is None or problems:
        raise UsageError.of(problems)
    return keys
