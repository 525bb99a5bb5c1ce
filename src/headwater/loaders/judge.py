"""Turns a declaration (YAML or Python) into the spec, and reports all of its problems together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from headwater.connectors import Sink, Source, all_connectors
from headwater.connectors.proving import HasReadFunction
from headwater.connectors.registry import EXAMPLES
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.connectors import CONNECTOR_NOT_FOUND
from headwater.errors.catalogue.pipelines import (
    FUNCTION_KIND_CONFLICT,
    KEY_MISSING,
    KEY_NEEDS_DEDUPLICATE,
    NAME_INVALID,
    PIPELINE_NO_SINKS,
    SECRET_NOT_ALLOWED,
    TABLE_KIND_CONFLICT,
    VALUE_INVALID,
)
from headwater.loaders.keys import (
    NAME,
    Declaration,
    Model,
    Part,
    PipelineKeys,
    Refused,
    Route,
    TableKeys,
    known_keys,
    value_places,
)
from headwater.loaders.user_files import (
    call_problems,
    key_of,
    reference_problems,
    refuse_call,
    table_function,
    with_parameters,
)
from headwater.loaders.validation import (
    meant_by_others,
    misspelt_required,
    read_keys,
    titled,
    unknown_keys,
    validated,
)
from headwater.loaders.whole import whole_problems
from headwater.spec import (
    Deduplication,
    Expectation,
    FunctionRef,
    FunctionSpec,
    PipelineSpec,
    SinkOptions,
    SinkSpec,
    SourceOptions,
    SourceSpec,
    TableSpec,
)
from headwater.spec.pipeline import FunctionKeys, SinkKeys, SourceKeys
from headwater.values import Position, Secret, did_you_mean, quoted

_PLACED = ("timezone", "spark", "suppress", "history", "event_log", "webhook", "on_event", "spark_metrics")
"""The settings of a pipeline whose positions are recorded."""
RESERVED = ("spark",)
"""A parameter of a table function with this name receives the Spark session."""


def judge(declaration: Declaration) -> PipelineSpec:
    """The spec; raises Refused with all problems, in the order of the file."""
    return _Judge(declaration).spec()


class _Judge:
    """Walks one declaration and collects problems."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.places = declaration.places
        self.problems: list[Problem] = []
        self.names_certain = True
        """Whether all names of sources and tables are known, so that a reference can be called unknown."""

    def spec(self) -> PipelineSpec:
        written, root = self.declaration.values, self.declaration.root
        whole = Part(written, self.declaration, (), "the pipeline")
        keys, _ = self._read(PipelineKeys, whole, "a pipeline file")
        right = keys or PipelineKeys.model_validate({"name": "pipeline"}, context={"root": root})
        things = {
            "functions": self._things("functions", self._sql_function),
            "sources": self._things("sources", self._source),
            "tables": self._things("tables", self._table),
            "sinks": self._things("sinks", self._sink),
        }
        if not re.fullmatch(NAME, right.name.replace("-", "_")):
            self._bad_name(right.name, self.places.of_value(("name",)), "a pipeline")
        top = {key: written[key] for key in _PLACED if key in written}
        if right.on_event:
            self._refuse_call(right.on_event, ("event",), ("on_event",))
        spec = PipelineSpec(
            **{**right.content(), **things},
            root=root,
            declared_in=self.declaration.file,
            position=self.places.of_key(()),
            places=value_places(self.places, top, ()),
        )
        found = whole_problems(spec, self.declaration)
        # If the top-level keys are invalid, the sinks may exist under a wrong key.
        self.problems += [problem for problem in found if keys or problem.entry is not PIPELINE_NO_SINKS]
        if self.problems:
            names = tuple(self._declared_names())
            sound = spec if self.names_certain else None
            raise Refused(*in_order(self.problems), sound=sound, besides=names)
        return spec

    def _declared_names(self) -> Iterator[str]:
        """Every name that a table or sink can read, including invalid objects and misspelled sections."""
        known = known_keys(PipelineKeys)
        for key, things in self.declaration.values.items():
            if key in ("sources", "tables") or key not in known:
                if isinstance(things, Mapping):
                    yield from (name for name in things if isinstance(name, str))
                elif things is not None and known.meant(key) in ("sources", "tables"):
                    self.names_certain = False

    def _things(self, part: str, read: Any) -> tuple[Any, ...]:
        """All valid sources, tables or sinks; the others are reported as problems."""
        things = self.declaration.values.get(part) or {}
        if not isinstance(things, Mapping):
            return ()
        found = []
        for name, keys in things.items():
            route = (part, name)
            if not re.fullmatch(NAME, name) or name.lower() in RESERVED:
                self._bad_name(name, self.places.of_key(route), f"a {part[:-1]}")
                self.names_certain = self.names_certain and part not in ("sources", "tables")
            found.append(read(name, keys, route))
        return tuple(thing for thing in found if thing is not None)

    def _where(self, part: Part) -> dict[str, Any]:
        """The positions of an object and of the values of its keys."""
        return {"position": part.of_key(), "places": value_places(self.places, part.values, part.route)}

    def _sql_function(self, name: str, written: Any, route: Route) -> FunctionSpec | None:
        part = self._part(
            written, route, f"the function `{name}`", "Add `python:` or `java_class:` below it."
        )
        if part is None:
            return None
        keys, misspelt = self._read(FunctionKeys, part)
        if keys is None:
            return None
        has = [key for key, value in (("python", keys.function), ("java_class", keys.java_class)) if value]
        if not has and misspelt & {"python", "java_class"}:
            return None
        if len(has) != 1:
            told = quoted(has, " and ") or "neither"
            self.problems.append(FUNCTION_KIND_CONFLICT.at(part.of_key(), name=name, has=told))
            return None
        found = self._function(keys.function, (*route, "python")) if keys.function else None
        return FunctionSpec(**{**keys.content(), "function": found}, name=name, position=part.of_key())

    def _source(self, name: str, written: Any, route: Route) -> SourceSpec | None:
        part, keys, options = self._connected(SourceKeys, "source", written, route, f"the source `{name}`")
        if part is None or keys is None or not isinstance(options, SourceOptions):
            return None
        return SourceSpec(**keys.content(), name=name, options=options, **self._where(part))

    def _sink(self, name: str, written: Any, route: Route) -> SinkSpec | None:
        part, keys, options = self._connected(SinkKeys, "sink", written, route, f"the sink `{name}`")
        if part is None or keys is None or not isinstance(options, SinkOptions):
            return None
        if keys.group is not None and (not re.fullmatch(NAME, keys.group) or keys.group.lower() in RESERVED):
            self._bad_name(keys.group, part.of_value("group"), f"the group of sink `{name}`")
            return None
        reads, found = part.of_value("reads"), self._where(part)
        return SinkSpec(**keys.content(), name=name, options=options, reads_position=reads, **found)

    def _table(self, name: str, written: Any, route: Route) -> TableSpec | None:
        text_route: Route = route if isinstance(written, str) else (*route, "sql")
        if isinstance(written, str):
            written = {"sql": written}
        hint = f"Write `{name}: SELECT …`, or add keys such as `sql:` below it."
        part = self._part(written, route, f"the table `{name}`", hint)
        if part is None:
            return None
        expect = part.values.get("expect")
        for each in expect if isinstance(expect, Mapping) else ():
            if not re.fullmatch(NAME, each):
                self._bad_name(each, part.of_key("expect", each), f"an expectation of table `{name}`")
        keys, misspelt = self._read(TableKeys, part)
        if keys is None or not self._has_one_form(name, keys, misspelt, part):
            return None
        return TableSpec(
            name=name,
            sql=keys.sql.rstrip() if keys.sql else None,
            function=self._function(keys.python, (*route, "python"), for_table=True) if keys.python else None,
            deduplicate=self._deduplication(keys, part) if keys.deduplicate else None,
            watermark=keys.watermark,
            expect=tuple(self._expectations(keys, expect, (*route, "expect"))),
            suppress=keys.suppress,
            text=self.places.of_text(text_route) if keys.sql else None,
            **self._where(part),
        )

    def _expectations(self, keys: TableKeys, written: Any, route: Route) -> Iterator[Expectation]:
        for name, each in keys.expect.items():
            way = (*route, name) if isinstance(written[name], str) else (*route, name, "condition")
            position, text = self.places.of_key((*route, name)), self.places.of_text(way)
            yield Expectation(**each.content(), name=name, position=position, text=text)

    def _has_one_form(self, name: str, keys: TableKeys, misspelt: frozenset[str], part: Part) -> bool:
        forms = ("sql", "python", "deduplicate")
        has = [key for key in forms if str(getattr(keys, key) or "").strip()]
        if not has and misspelt & set(forms):
            return False
        if len(has) != 1:
            told = quoted(has, " and ") or "none of them"
            self.problems.append(TABLE_KIND_CONFLICT.at(part.of_key(), name=name, has=told))
            return False
        if has != ["deduplicate"]:
            alone = [key for key in ("reads", "within") if getattr(keys, key)]
            self.problems += [KEY_NEEDS_DEDUPLICATE.at(part.of_key(key), name=name, key=key) for key in alone]
            return not alone
        if not keys.reads:
            missing = {"where": titled(part.where), "key": "reads", "example": "`reads: a_table`"}
            self.problems.append(KEY_MISSING.at(part.of_key(), **missing))
        return bool(keys.reads)

    def _deduplication(self, keys: TableKeys, part: Part) -> Deduplication:
        return Deduplication(
            reads=str(keys.reads),
            columns=keys.deduplicate,
            within_watermark=keys.within is not None,
            position=part.of_key("deduplicate"),
            reads_position=part.of_value("reads"),
        )

    def _function(self, ref: FunctionRef, route: Route, *, for_table: bool = False) -> FunctionRef:
        place = self.places.of_value(route)
        try:
            if for_table:
                return table_function(ref, place, (*RESERVED, *self._declared_names()))
            return with_parameters(ref, place)
        except PipelineError as error:
            self.problems += error.problems
            return ref

    def _refuse_call(self, ref: FunctionRef, passed: tuple[str, ...], route: Route) -> None:
        try:
            refuse_call(ref, passed, self.places.of_value(route))
        except PipelineError as error:
            self.problems += error.problems

    def _connected(
        self, model: type[Model], side: Literal["source", "sink"], written: Any, route: Route, where: str
    ) -> tuple[Part | None, Model | None, Any]:
        """The raw keys, the common keys, and the keys of the connector."""
        part = self._part(written, route, where, "Add keys such as `connector:` below it.")
        if part is None:
            return None, None, None
        sides = ((each.name, getattr(each, side)) for each in all_connectors().values())
        fitting: dict[str, Source[Any] | Sink[Any]] = {name: each for name, each in sides if each is not None}
        misspelt = frozenset[str]()
        if written.get("connector") not in list(all_connectors()):
            # The keys of the connector are unknown, so only misspelled required keys are reported.
            own = {key for each in fitting.values() for key in known_keys(each.options)}
            typos = misspelt_required(model, part, own)
            self.problems += unknown_keys(replace(part, values=typos), known_keys(model))
            misspelt = frozenset(typos.values())
        connector = self._connector(side, part, fitting, misspelt)
        if connector is None:
            named = isinstance(written.get("connector", ""), str)
            # An unknown connector is already reported, but not one that is not a string.
            told = {**written, "connector": "?"} if named or written["connector"] is None else written
            self._checked(model, replace(part, values=told), misspelt)
            return None, None, None
        known = known_keys(model, connector.options)
        self.problems += unknown_keys(part, known)
        misspelt = meant_by_others(part, known)
        keys = self._checked(model, part, misspelt)
        options = self._checked(connector.options, part, misspelt)
        if options is not None:
            for ref in connector.functions(options):
                place = part.of_value(key_of(options, ref))
                self.problems += reference_problems(ref, connector, place)
            if isinstance(connector, HasReadFunction) and (reads := connector.read_function(options)):
                self.problems += call_problems(reads, ("spark",), part.of_value(key_of(options, reads)))
        return part, keys, options

    def _connector(
        self, side: str, part: Part, fitting: Mapping[str, Source[Any] | Sink[Any]], misspelt: frozenset[str]
    ) -> Source[Any] | Sink[Any] | None:
        name = part.values.get("connector")
        if name is None and "connector" not in misspelt:
            example = f"`connector: {EXAMPLES[side]}`"
            missing = {"where": titled(part.where), "key": "connector", "example": example}
            self.problems.append(KEY_MISSING.at(part.of_key(), **missing))
        if isinstance(name, str) and name not in fitting:
            hint, place = (
                did_you_mean(name, fitting, "Install the package that provides it."),
                part.of_value("connector"),
            )
            known = ", ".join(sorted(fitting))
            self.problems.append(CONNECTOR_NOT_FOUND.at(place, side=side, name=name, hint=hint, known=known))
        return fitting.get(name) if isinstance(name, str) else None

    def _read(self, model: type[Model], part: Part, around: str = "") -> tuple[Model | None, frozenset[str]]:
        keys, problems, misspelt = read_keys(model, part, around)
        self.problems += problems
        return keys, misspelt

    def _checked(self, model: type[Model], part: Part, misspelt: frozenset[str]) -> Model | None:
        result = validated(model, part, misspelt)
        if isinstance(result, list):
            self.problems += result
            return None
        return result

    def _part(self, written: Any, route: Route, where: str, hint: str) -> Part | None:
        """The keys of an object; None if it is not a mapping."""
        part = Part(written, self.declaration, route, where)
        if isinstance(written, Mapping):
            return part
        if isinstance(written, Secret):
            problem = SECRET_NOT_ALLOWED.at(part.of_value(), what=titled(where))
        else:
            says = "the value is empty. Expected a mapping" if written is None else "expected a mapping"
            problem = VALUE_INVALID.at(part.of_key(), what=titled(where), says=says, hint=hint)
        self.problems.append(problem)
        return None

    def _bad_name(self, name: str, place: Position, where: str) -> None:
        cleaned = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "name"
        suggestion = f"_{cleaned}" if cleaned[0].isdigit() else cleaned
        if suggestion.lower() in RESERVED:
            suggestion = f"{suggestion}_rows"
        self.problems.append(NAME_INVALID.at(place, name=name, where=where, suggestion=suggestion))


def in_order(problems: list[Problem]) -> list[Problem]:
    """The problems in the order of the file, without duplicates."""
    distinct = {str(problem): problem for problem in problems}.values()
    return sorted(
        distinct, key=lambda p: (p.place.file, p.place.line, p.place.column) if p.place else ("", 0, 0)
    )
