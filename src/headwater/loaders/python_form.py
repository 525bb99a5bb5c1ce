"""Pipelines declared in Python: a registry of declarations, each with its file and line."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, overload

from headwater.connectors.connector import ConnectorCall
from headwater.errors import PipelineError, UsageError
from headwater.errors.catalogue.pipelines import NAME_CONFLICT
from headwater.errors.catalogue.programs import TABLE_NAME_MISSING
from headwater.events import Event
from headwater.loaders.judge import judge
from headwater.loaders.keys import Declaration, Places, Route
from headwater.loaders.yaml_form import YamlFile
from headwater.spec import PipelineSpec
from headwater.values import Position, Secret, TextPosition
from headwater.values.user_frames import caller


def expect(
    condition: str, *, on_violation: Literal["warn", "drop", "fail", "quarantine"] = "warn"
) -> Mapping[str, str]:
    """A SQL condition that every row of a table should meet, and what to do with rows that violate it.

    `on_violation` is `warn` (the default), `drop`, `fail` or `quarantine`. Null counts as a violation.
    """
    return {"condition": condition, "on_violation": on_violation}


Function = TypeVar("Function", bound=Callable[..., Any])


class Declarations:
    """The declared sources, tables and sinks; `spec()` validates them."""

    def __init__(
        self,
        name: str,
        *,
        timezone: str | None = None,
        run_dir: str | Path | None = None,
        spark: Mapping[str, str | int | float | bool] | None = None,
        watermark_policy: str | None = None,
        restart: str | Mapping[str, Any] | None = None,
        on_failure: str | None = None,
        history: Mapping[str, str | int] | None = None,
        event_log: str | Path | None = None,
        webhook: str | Secret | None = None,
        on_event: str | Callable[[Event], object] | None = None,
        spark_metrics: str | Mapping[str, Mapping[str, object]] | None = None,
        jars: Sequence[str | Path] = (),
        suppress: Mapping[str, str] | None = None,
        alerts: Mapping[str, bool | str | Mapping[str, object]] | None = None,
    ) -> None:
        self.name = name
        self._position = caller()
        self._keys: dict[str, Any] = {
            "name": name,
            "timezone": timezone,
            "run_dir": str(run_dir) if run_dir is not None else None,
            "spark": dict(spark) if spark else None,
            "watermark_policy": watermark_policy,
            "restart": restart,
            "on_failure": on_failure,
            "history": dict(history) if history else None,
            "event_log": str(event_log) if event_log is not None else None,
            "webhook": webhook,
            "on_event": on_event,
            "spark_metrics": spark_metrics,
            "jars": [str(jar) for jar in jars] or None,
            "suppress": dict(suppress) if suppress else None,
            "alerts": dict(alerts) if alerts else None,
        }
        self._things: dict[str, dict[str, Any]] = {"functions": {}, "sources": {}, "tables": {}, "sinks": {}}
        self._positions: dict[Route, Position] = {}
        self._file: YamlFile | None = None

    @classmethod
    def of_file(cls, file: YamlFile) -> Self:
        """The declarations of a YAML file; a program can add more."""
        declared = cls(str(file.tree.value.get("name")))
        declared._file = file
        return declared

    def copied(self) -> Self:
        """A copy of the declarations; you can add more without changing the original."""
        made = copy.copy(self)
        made._things = {part: dict(things) for part, things in self._things.items()}
        made._positions = dict(self._positions)
        return made

    def source(
        self,
        name: str,
        connector: ConnectorCall,
        *,
        static: bool = False,
        refresh: str | None = None,
        cache: bool = False,
        watermark: tuple[str, str] | None = None,
        bad_rows: str | None = None,
        max_row_bytes: int | None = None,
    ) -> None:
        """Declare a source.

        `static` reads it as a static table, `refresh` and `cache` control when it is re-read. `watermark` is
        the event-time column and its delay. `bad_rows` is `fail` (the default), `drop`, `keep` or
        `quarantine`; rows longer than `max_row_bytes` count as bad rows.
        """
        keys = {
            "static": static or None,
            "refresh": refresh,
            "cache": cache or None,
            "watermark": watermark,
            "bad_rows": bad_rows,
            "max_row_bytes": max_row_bytes,
        }
        self._declare("sources", name, _connected(connector, keys))

    def sink(
        self,
        name: str,
        connector: ConnectorCall,
        *,
        reads: str,
        mode: str | None = None,
        trigger: str | None = None,
        restart: str | Mapping[str, Any] | None = None,
        on_failure: str | None = None,
        group: str | None = None,
        suppress: Mapping[str, str] | None = None,
    ) -> None:
        """Declare a sink.

        `reads` is the source or table to write, `mode` the output mode (default: `append`), `trigger` when
        each batch starts. `restart` is when the query is restarted after a failure (`never`, or an object), and
        `on_failure` what happens to the other queries (`continue` or `stop`). Sinks with the same `group` share
        one query. `suppress` maps codes of findings to the reasons for suppressing them.
        """
        keys = {
            "reads": reads,
            "mode": mode,
            "trigger": trigger,
            "restart": restart,
            "on_failure": on_failure,
            "group": group,
            "suppress": dict(suppress) if suppress else None,
        }
        self._declare("sinks", name, _connected(connector, keys))

    def function(
        self,
        name: str,
        *,
        python: str | Callable[..., Any] | None = None,
        java_class: str | None = None,
        returns: str | None = None,
    ) -> None:
        """Declare a SQL function: your Python function, or a class in one of the jars.

        `returns` is the return type of a plain Python function, such as `bigint`.
        """
        keys = {"python": python, "java_class": java_class, "returns": returns}
        self._declare("functions", name, {key: value for key, value in keys.items() if value is not None})

    @overload
    def table(self, declared: Function, /) -> Function: ...

    @overload
    def table(
        self,
        declared: str | None = None,
        /,
        *,
        watermark: tuple[str, str] | None = None,
        expect: Mapping[str, str | Mapping[str, str]] | None = None,
        suppress: Mapping[str, str] | None = None,
    ) -> Callable[[Function], Function]: ...

    @overload
    def table(
        self,
        declared: str,
        /,
        *,
        sql: str,
        watermark: tuple[str, str] | None = None,
        expect: Mapping[str, str | Mapping[str, str]] | None = None,
        suppress: Mapping[str, str] | None = None,
    ) -> None: ...

    @overload
    def table(
        self,
        declared: str,
        /,
        *,
        python: str | Callable[..., Any],
        watermark: tuple[str, str] | None = None,
        expect: Mapping[str, str | Mapping[str, str]] | None = None,
        suppress: Mapping[str, str] | None = None,
    ) -> None: ...

    @overload
    def table(
        self,
        declared: str,
        /,
        *,
        reads: str,
        deduplicate: str | Sequence[str],
        within: Literal["watermark"] | None = None,
        watermark: tuple[str, str] | None = None,
        expect: Mapping[str, str | Mapping[str, str]] | None = None,
        suppress: Mapping[str, str] | None = None,
    ) -> None: ...

    def table(
        self,
        declared: Any = None,
        /,
        *,
        watermark: tuple[str, str] | None = None,
        expect: Mapping[str, str | Mapping[str, str]] | None = None,
        suppress: Mapping[str, str] | None = None,
        **form: Any,
    ) -> Any:
        """Declare a table: as a decorator of a function, or by name with `sql=`, `python=` or `deduplicate=`.

        `expect` maps names to conditions: a SQL string, or `hw.expect(…)` to set the action on a violation.
        """
        given = {key: value for key, value in form.items() if value is not None}
        whole = {
            "watermark": watermark,
            "expect": dict(expect) if expect else None,
            "suppress": dict(suppress) if suppress else None,
        }
        if given:
            if not isinstance(declared, str):
                raise UsageError(TABLE_NAME_MISSING.at(caller()))
            if "sql" in given:
                given["sql"] = inspect.cleandoc(given["sql"])
            return self._table(declared, **whole, **given)
        if callable(declared):
            return self._decorated(declared, declared.__name__, whole)
        return lambda function: self._decorated(function, declared or function.__name__, whole)

    def spec(self) -> PipelineSpec:
        """The validated spec; raises PipelineError with all problems."""
        if self._file:
            spec = self._file.spec(self._things, self)
        else:
            values = {key: value for key, value in self._keys.items() if value is not None}
            file = self._position.file
            root = Path(file).parent if os.path.exists(file) else Path.cwd()
            spec = judge(Declaration({**values, **self._things}, self, root, file))
        return spec

    def of_key(self, route: Route) -> Position:
        """The position of the call that declared the object."""
        places = self._places(route)
        return places.of_key(route) if places else self._positions.get(route[:2], self._position)

    def of_value(self, route: Route) -> Position:
        places = self._places(route)
        return places.of_value(route) if places else self.of_key(route)

    def of_text(self, route: Route) -> TextPosition:
        places = self._places(route)
        return places.of_text(route) if places else TextPosition(self.of_key(route), exact=False)

    def _places(self, route: Route) -> Places | None:
        """The positions in the YAML file, for objects that it declares."""
        return self._file.tree if self._file and route[:2] not in self._positions else None

    def _decorated(self, function: Function, name: str, whole: Mapping[str, Any]) -> Function:
        self._table(name, **whole, python=function)
        return function

    def _table(self, name: str, **keys: Any) -> None:
        self._declare("tables", name, {key: value for key, value in keys.items() if value is not None})

    def _declare(self, part: str, name: str, keys: Mapping[str, Any]) -> None:
        """Store a declaration; a notebook cell can declare a name again, a file cannot."""
        place, first = caller(), self._positions.get((part, name))
        again = "ipykernel" in place.file or not os.path.exists(place.file)
        if self._file and (in_file := self._file.position_of(part, name)):
            first, again = in_file, False
        if first and not again:
            kind = part[:-1]
            titles = {"first": f"a {kind} on line {first.line}", "second": f"a {kind} on line {place.line}"}
            raise PipelineError(NAME_CONFLICT.at(place, name=name, **titles))
        self._things[part][name] = keys
        self._positions[(part, name)] = place


def _connected(connector: ConnectorCall, keys: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in keys.items() if value is not None}
    return {"connector": connector.connector, **connector.keys, **given}
