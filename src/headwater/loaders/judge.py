"""From a declaration, in whichever form, to the spec; every problem on the way is reported together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from headwater.connectors import all_connectors
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.connectors import UNKNOWN_CONNECTOR
from headwater.errors.catalogue.pipelines import (
    BAD_NAME,
    FUNCTION_FORM,
    MISSING_KEY,
    NO_SINKS,
    ONLY_WITH_DISTINCT,
    SECRET_NOT_HERE,
    TABLE_FORM,
    WRONG_VALUE,
)
from headwater.loaders.keys import (
    NAME,
    Declaration,
    PipelineKeys,
    Places,
    Refused,
    Route,
    TableKeys,
    known_keys,
    value_places,
)
from headwater.loaders.user_files import key_of, reference_problems, table_function, with_parameters
from headwater.loaders.validation import (
    meant_by_others,
    misspelt_required,
    read_keys,
    unknown_keys,
    upper,
    validated,
)
from headwater.loaders.whole import whole_problems
from headwater.spec import (
    Distinct,
    Expectation,
    FunctionSpec,
    PipelineSpec,
    SinkOptions,
    SinkSpec,
    SourceOptions,
    SourceSpec,
    TableSpec,
)
from headwater.spec.paths import absolute
from headwater.spec.pipeline import ExpectationKeys, FunctionKeys, SinkKeys, SourceKeys
from headwater.values import Position, Secret, did_you_mean

# The expectations of a table, as they are declared in either form.


def expect(
    check: str, *, otherwise: Literal["warn", "drop", "fail", "quarantine"] = "warn"
) -> Mapping[str, str]:
    """A condition in SQL that the rows of a table should fulfil, and what becomes of those that don't."""
    return {"check": check, "else": otherwise}


def expectations_of(
    keys: Mapping[str, ExpectationKeys], written: Any, places: Places, route: Route
) -> tuple[Expectation, ...]:
    """What was declared, with the place of each condition."""
    ways = {name: (name,) if isinstance(written[name], str) else (name, "check") for name in keys}
    return tuple(
        Expectation(
            **each.content(),
            name=name,
            position=places.of_key((*route, name)),
            text=places.of_text((*route, *ways[name])),
        )
        for name, each in keys.items()
    )


def name_problems(written: Any, table: str, places: Places, route: Route) -> Iterator[Problem]:
    """Names by which an expectation can't be counted."""
    for name in written if isinstance(written, Mapping) else ():
        if not re.match(NAME, name):
            cleaned = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "name"
            suggestion = f"_{cleaned}" if cleaned[0].isdigit() else cleaned
            where = f"an expectation of the table `{table}`"
            yield BAD_NAME.at(places.of_key((*route, name)), name=name, where=where, suggestion=suggestion)


_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
RESERVED = ("spark",)
"""A table function's parameter of this name gets the session."""


def judge(declaration: Declaration) -> PipelineSpec:
    """The spec, or what is Refused: all that is wrong, in the order of the file."""
    return _Judge(declaration).spec()


class _Judge:
    """Walks one declaration and collects problems."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.places = declaration.places
        self.problems: list[Problem] = []
        self.names_certain = True
        """Whether the names of sources and tables are the ones that other parts know."""

    def spec(self) -> PipelineSpec:
        written = self.declaration.values
        keys, _ = self._of_model(PipelineKeys, written, (), "the pipeline", "a pipeline file")
        functions = self._things("functions", written, self._sql_function)
        sources = self._things("sources", written, self._source)
        tables = self._things("tables", written, self._table)
        sinks = self._things("sinks", written, self._sink)
        right = keys if isinstance(keys, PipelineKeys) else PipelineKeys(name="pipeline")
        spec = self._assembled(right, functions, sources, tables, sinks)
        found = whole_problems(spec, self.declaration)
        # Where the keys at the top are wrong, sinks may be there and not seen.
        self.problems += [problem for problem in found if right is keys or problem.entry is not NO_SINKS]
        if self.problems:
            names = tuple(self._declared_names())
            sound = spec if self.names_certain else None
            raise Refused(*in_order(self.problems), sound=sound, besides=names)
        return spec

    def _declared_names(self) -> Iterator[str]:
        """Every name that a table or sink may read, also of what is wrong or under a misspelt key."""
        known = known_keys(PipelineKeys)
        for key, things in self.declaration.values.items():
            if key in ("sources", "tables") or key not in known:
                if isinstance(things, Mapping):
                    yield from (name for name in things if isinstance(name, str))
                elif things is not None and known.meant(key) in ("sources", "tables"):
                    self.names_certain = False

    def _assembled(
        self,
        keys: PipelineKeys,
        functions: list[Any],
        sources: list[Any],
        tables: list[Any],
        sinks: list[Any],
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
            jars=keys.jars,
            accept=keys.accept,
            functions=tuple(functions),
            sources=tuple(sources),
            tables=tuple(tables),
            sinks=tuple(sinks),
            declared_in=self.declaration.file,
            position=self.places.of_key(()),
            places=self._top_places(),
        )

    def _top_places(self) -> dict[Route, Position]:
        """Where the keys at the top stand that are no things with places of their own."""
        written = {
            key: self.declaration.values[key]
            for key in ("timezone", "spark", "accept")
            if key in self.declaration.values
        }
        return value_places(self.places, written, ())

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
                self.names_certain = self.names_certain and part not in ("sources", "tables")
            found.append(read(name, keys, route))
        return [thing for thing in found if thing is not None]

    def _sql_function(self, name: str, written: Any, route: Route) -> FunctionSpec | None:
        where = f"the function `{name}`"
        if not self._is_mapping(written, route, where, "Write `python:` or `class:` below it."):
            return None
        keys, misspelt = self._of_model(FunctionKeys, written, route, where)
        if not isinstance(keys, FunctionKeys):
            return None
        has = [key for key, value in (("python", keys.function), ("class", keys.java_class)) if value]
        if not has and misspelt & {"python", "class"}:
            return None
        if len(has) != 1:
            self.problems.append(
                FUNCTION_FORM.at(self.places.of_key(route), name=name, has=" and ".join(has) or "neither")
            )
            return None
        found = self._function(keys.function, (*route, "python")) if keys.function else None
        told = {**keys.content(), "function": found}
        return FunctionSpec(**told, name=name, position=self.places.of_key(route))

    def _source(self, name: str, written: Any, route: Route) -> SourceSpec | None:
        where = f"the source `{name}`"
        keys, options = self._connected(SourceKeys, "source", written, route, where)
        if not isinstance(keys, SourceKeys) or not isinstance(options, SourceOptions):
            return None
        return SourceSpec(
            **keys.content(),
            name=name,
            options=options,
            position=self.places.of_key(route),
            places=value_places(self.places, written, route),
        )

    def _sink(self, name: str, written: Any, route: Route) -> SinkSpec | None:
        where = f"the sink `{name}`"
        keys, options = self._connected(SinkKeys, "sink", written, route, where)
        if not isinstance(keys, SinkKeys) or not isinstance(options, SinkOptions):
            return None
        return SinkSpec(
            **keys.content(),
            name=name,
            options=options,
            position=self.places.of_key(route),
            places=value_places(self.places, written, route),
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
        expected = (*route, "expect")
        self.problems += name_problems(written.get("expect"), name, self.places, expected)
        keys, misspelt = self._of_model(TableKeys, written, route, where)
        if not isinstance(keys, TableKeys) or not self._has_one_form(name, keys, misspelt, route):
            return None
        return TableSpec(
            name=name,
            sql=keys.sql.rstrip() if keys.sql else None,
            function=self._function(keys.python, (*route, "python"), for_table=True) if keys.python else None,
            distinct=self._distinct(keys, route) if keys.distinct else None,
            watermark=keys.watermark,
            expect=expectations_of(keys.expect, written.get("expect"), self.places, expected),
            accept=keys.accept,
            position=self.places.of_key(route),
            places=value_places(self.places, written, route),
            text=self.places.of_text(text_route) if keys.sql else None,
        )

    def _has_one_form(self, name: str, keys: TableKeys, misspelt: frozenset[str], route: Route) -> bool:
        forms = ("sql", "python", "distinct")
        has = [key for key in forms if str(getattr(keys, key) or "").strip()]
        if not has and misspelt & set(forms):
            return False
        place = self.places.of_key(route)
        if len(has) != 1:
            told = " and ".join(has) or "none of them"
            self.problems.append(TABLE_FORM.at(place, name=name, has=told))
            return False
        if has != ["distinct"]:
            alone = [key for key in ("reads", "within") if getattr(keys, key)]
            self.problems += [
                ONLY_WITH_DISTINCT.at(self.places.of_key((*route, key)), name=name, key=key) for key in alone
            ]
            return not alone
        if not keys.reads:
            where = f"the table `{name}`"
            self.problems.append(MISSING_KEY.at(place, where=where, key="reads", example="`reads: a_table`"))
        return bool(keys.reads)

    def _distinct(self, keys: TableKeys, route: Route) -> Distinct:
        return Distinct(
            reads=str(keys.reads),
            columns=keys.distinct,
            within_watermark=keys.within is not None,
            position=self.places.of_key((*route, "distinct")),
            reads_position=self.places.of_value((*route, "reads")),
        )

    def _function(self, ref: Any, route: Route, *, for_table: bool = False) -> Any:
        place = self.places.of_value(route)
        try:
            if for_table:
                return table_function(ref, place, (*RESERVED, *self._declared_names()))
            return with_parameters(ref, place)
        except PipelineError as error:
            self.problems += error.problems
            return ref

    def _connected(
        self, model: Any, side: str, written: Any, route: Route, where: str
    ) -> tuple[Any, SourceOptions | SinkOptions | None]:
        """The common keys, and the connector's own."""
        if not self._is_mapping(written, route, where, "Write keys such as `connector:` below it."):
            return None, None
        common = known_keys(model)
        sides = {each.name: getattr(each, side) for each in all_connectors().values()}
        fitting = {name: part for name, part in sides.items() if part is not None}
        misspelt = self._misspelt_common(model, written, fitting.values(), route, where)
        connector = self._connector(side, written, fitting, route, where, misspelt)
        if connector is None:
            named = isinstance(written.get("connector", ""), str)
            # What is wrong with the connector has been told, unless it is no text at all.
            told = {**written, "connector": "?"} if named or written["connector"] is None else written
            self._checked(model, told, route, where, misspelt)
            return None, None
        known = known_keys(model, connector.options)
        self.problems += unknown_keys(written, known, self.declaration, route, where)
        misspelt = meant_by_others(written, known)
        shared = {key: value for key, value in written.items() if key in common}
        own = {key: value for key, value in written.items() if key not in common}
        keys = self._checked(model, shared, route, where, misspelt)
        options = self._checked(connector.options, own, route, where, misspelt)
        for ref in connector.functions(options) if options else ():
            place = self.places.of_value((*route, key_of(options, ref)))
            self.problems += reference_problems(ref, connector, place)
        return keys, options

    def _misspelt_common(
        self, model: Any, written: Mapping[str, Any], sides: Iterable[Any], route: Route, where: str
    ) -> frozenset[str]:
        """Required keys for which unknown ones stand, told where the connector and its keys are not known."""
        name, common = written.get("connector"), known_keys(model)
        if isinstance(name, str) and name in all_connectors():
            return frozenset()
        own = {key for side in sides for key in known_keys(side.options)}
        typos = misspelt_required(model, written, own)
        self.problems += unknown_keys(typos, common, self.declaration, route, where)
        return frozenset(typos.values())

    def _connector(
        self,
        side: str,
        written: Mapping[str, Any],
        fitting: Mapping[str, Any],
        route: Route,
        where: str,
        misspelt: frozenset[str],
    ) -> Any:
        name = written.get("connector")
        if name is None and "connector" in misspelt:
            return None
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
        hint = did_you_mean(name, fitting, "Is a package missing?")
        known = ", ".join(sorted(fitting))
        place = self.places.of_value((*route, "connector"))
        return UNKNOWN_CONNECTOR.at(place, side=side, name=name, hint=hint, known=known)

    def _of_model(
        self, model: Any, written: Mapping[str, Any], route: Route, where: str, around: str = ""
    ) -> tuple[Any, frozenset[str]]:
        keys, problems, misspelt = read_keys(model, written, self.declaration, route, where, around)
        self.problems += problems
        return keys, misspelt

    def _checked(
        self,
        model: Any,
        written: Mapping[str, Any],
        route: Route,
        where: str,
        misspelt: frozenset[str] = frozenset(),
    ) -> Any:
        result = validated(model, written, self.declaration, route, where, misspelt)
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
