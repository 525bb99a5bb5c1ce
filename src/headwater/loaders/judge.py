"""From a declaration, in whichever form, to the spec; every problem on the way is reported together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headwater.connectors import all_connectors
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.connectors import UNKNOWN_CONNECTOR
from headwater.errors.catalogue.pipelines import (
    BAD_NAME,
    MISSING_KEY,
    SECRET_NOT_HERE,
    TABLE_FORM,
    WRONG_VALUE,
)
from headwater.loaders.declaration import Declaration, Route
from headwater.loaders.functions import with_parameters
from headwater.loaders.keys import PipelineKeys, SinkKeys, SourceKeys, TableKeys
from headwater.loaders.validation import known_keys, unknown_keys, upper, validated
from headwater.loaders.whole import whole_problems
from headwater.spec import (
    PipelineSpec,
    SinkOptions,
    SinkSpec,
    SourceOptions,
    SourceSpec,
    TableSpec,
)
from headwater.spec.paths import absolute
from headwater.values import Secret, nearest

_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
RESERVED = ("spark",)
"""A table function's parameter of this name gets the session."""


def judge(declaration: Declaration) -> PipelineSpec:
    """The spec, or a PipelineError with all that is wrong, in the order of the file."""
    return _Judge(declaration).spec()


class _Judge:
    """Walks one declaration and collects problems."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.places = declaration.places
        self.problems: list[Problem] = []

    def spec(self) -> PipelineSpec:
        written = self.declaration.values
        self.problems += unknown_keys(
            written, known_keys(PipelineKeys), self.declaration, (), "a pipeline file"
        )
        keys = self._checked(PipelineKeys, written, (), "the pipeline")
        sources = self._things("sources", written, self._source)
        tables = self._things("tables", written, self._table)
        sinks = self._things("sinks", written, self._sink)
        if isinstance(keys, PipelineKeys):
            spec = self._assembled(keys, sources, tables, sinks)
            self.problems += whole_problems(spec, self.declaration)
        if self.problems or not isinstance(keys, PipelineKeys):
            raise PipelineError.of(in_order(self.problems))
        return spec

    def _assembled(
        self, keys: PipelineKeys, sources: list[Any], tables: list[Any], sinks: list[Any]
    ) -> PipelineSpec:
        if not _NAME.match(keys.name.replace("-", "_")):
            self._bad_name(keys.name, ("name",), "a pipeline", value=True)
        root = self.declaration.root
        return PipelineSpec(
            name=keys.name,
            root=root,
            folder=Path(absolute(keys.folder, root)),
            timezone=keys.timezone,
            spark=keys.spark,
            watermark_policy=keys.watermark_policy,
            sources=tuple(sources),
            tables=tuple(tables),
            sinks=tuple(sinks),
            declared_in=self.declaration.file,
            position=self.places.of_key(()),
        )

    def _things(self, part: str, written: Mapping[str, Any], read: Any) -> list[Any]:
        """Every readable source, table or sink; the rest became problems."""
        things = written.get(part) or {}
        if not isinstance(things, Mapping):
            return []
        found = []
        for name, keys in things.items():
            route = (part, name)
            if not _NAME.match(name) or name.lower() in RESERVED:
                self._bad_name(name, route, f"a {part[:-1]}")
            found.append(read(name, keys, route))
        return [thing for thing in found if thing is not None]

    def _source(self, name: str, written: Any, route: Route) -> SourceSpec | None:
        where = f"the source `{name}`"
        keys, options = self._connected(SourceKeys, "source", written, route, where)
        if not isinstance(keys, SourceKeys) or not isinstance(options, SourceOptions):
            return None
        return SourceSpec(
            name=name,
            connector=keys.connector,
            options=options,
            static=keys.static,
            watermark=keys.watermark.to_spec() if keys.watermark else None,
            position=self.places.of_key(route),
        )

    def _sink(self, name: str, written: Any, route: Route) -> SinkSpec | None:
        where = f"the sink `{name}`"
        keys, options = self._connected(SinkKeys, "sink", written, route, where)
        if not isinstance(keys, SinkKeys) or not isinstance(options, SinkOptions):
            return None
        return SinkSpec(
            name=name,
            reads=keys.reads,
            connector=keys.connector,
            options=options,
            mode=keys.mode,
            trigger=keys.trigger,
            position=self.places.of_key(route),
            reads_position=self.places.of_value((*route, "reads")),
        )

    def _table(self, name: str, written: Any, route: Route) -> TableSpec | None:
        where = f"the table `{name}`"
        text_route: Route = route if isinstance(written, str) else (*route, "sql")
        if isinstance(written, str):
            written = {"sql": written}
        if not self._is_mapping(
            written, route, where, f"Write `{name}: SELECT …`, or keys such as `sql:` below it."
        ):
            return None
        self.problems += unknown_keys(written, known_keys(TableKeys), self.declaration, route, where)
        keys = self._checked(TableKeys, written, route, where)
        if not isinstance(keys, TableKeys):
            return None
        has = [key for key in ("sql", "python") if str(getattr(keys, key) or "").strip()]
        if len(has) != 1:
            problem = TABLE_FORM.at(self.places.of_key(route), name=name, has=" and ".join(has) or "neither")
            self.problems.append(problem)
            return None
        return TableSpec(
            name=name,
            sql=keys.sql.rstrip() if keys.sql else None,
            function=self._function(keys.python, (*route, "python")) if keys.python else None,
            watermark=keys.watermark.to_spec() if keys.watermark else None,
            position=self.places.of_key(route),
            text=self.places.of_text(text_route) if keys.sql else None,
        )

    def _function(self, ref: Any, route: Route) -> Any:
        try:
            return with_parameters(ref, self.places.of_value(route))
        except PipelineError as error:
            self.problems += error.problems
            return ref

    def _connected(
        self, model: Any, side: str, written: Any, route: Route, where: str
    ) -> tuple[Any, SourceOptions | SinkOptions | None]:
        """The common keys, and the connector's own."""
        if not self._is_mapping(written, route, where, "Write keys such as `connector:` below it."):
            return None, None
        connector = self._connector(side, written, route, where)
        common = known_keys(model)
        if connector is None:
            named = isinstance(written.get("connector", ""), str)
            # What is wrong with the connector has been told, unless it is no text at all.
            told = {**written, "connector": "?"} if named or written["connector"] is None else written
            self._checked(model, told, route, where)
            return None, None
        own = known_keys(connector.options)
        self.problems += unknown_keys(written, (*common, *own), self.declaration, route, where)
        keys = self._checked(model, {k: v for k, v in written.items() if k in common}, route, where)
        options = self._checked(
            connector.options, {k: v for k, v in written.items() if k not in common}, route, where
        )
        for ref in connector.functions(options) if options else ():
            self._function(ref, (*route, "function"))
        return keys, options

    def _connector(self, side: str, written: Mapping[str, Any], route: Route, where: str) -> Any:
        name = written.get("connector")
        fitting = {
            each.name: part for each in all_connectors().values() if (part := getattr(each, side)) is not None
        }
        if name is None:
            example = f"`connector: {'files' if side == 'source' else 'console'}`"
            self.problems.append(
                MISSING_KEY.at(self.places.of_key(route), where=where, key="connector", example=example)
            )
            return None
        if isinstance(name, str) and name not in fitting:
            self.problems.append(self._unknown_connector(side, name, fitting, route))
        return fitting.get(name) if isinstance(name, str) else None

    def _unknown_connector(self, side: str, name: str, fitting: Iterable[str], route: Route) -> Problem:
        meant = nearest(name, tuple(fitting))
        hint = f"Did you mean `{meant}`?" if meant else "Is a package missing?"
        known = ", ".join(sorted(fitting))
        place = self.places.of_value((*route, "connector"))
        return UNKNOWN_CONNECTOR.at(place, side=side, name=name, hint=hint, known=known)

    def _checked(self, model: Any, written: Mapping[str, Any], route: Route, where: str) -> Any:
        result = validated(model, written, self.declaration, route, where)
        if isinstance(result, list):
            self.problems += result
            return None
        return result

    def _is_mapping(self, written: Any, route: Route, where: str, hint: str) -> bool:
        if isinstance(written, Mapping):
            return True
        if isinstance(written, Secret):
            problem = SECRET_NOT_HERE.at(self.places.of_value(route), what=upper(where))
        else:
            says = "it is empty" if written is None else "keys with values are wanted here"
            place = self.places.of_key(route)
            problem = WRONG_VALUE.at(place, what=upper(where), says=says, hint=hint)
        self.problems.append(problem)
        return False

    def _bad_name(self, name: str, route: Route, where: str, *, value: bool = False) -> None:
        cleaned = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "name"
        suggestion = f"_{cleaned}" if cleaned[0].isdigit() else cleaned
        if suggestion.lower() in RESERVED:
            suggestion = f"{suggestion}_rows"
        place = self.places.of_value(route) if value else self.places.of_key(route)
        self.problems.append(BAD_NAME.at(place, name=name, where=where, suggestion=suggestion))


def in_order(problems: list[Problem]) -> list[Problem]:
    """As they stand in the file, each once."""
    distinct = {str(problem): problem for problem in problems}.values()
    return sorted(
        distinct, key=lambda p: (p.place.file, p.place.line, p.place.column) if p.place else ("", 0, 0)
    )
