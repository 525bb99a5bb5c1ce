"""The graph of a pipeline: which table reads which, in which order they are built, what streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.pipelines import CYCLE, SQL_NOT_A_QUERY, UNKNOWN_TABLE
from headwater.plan.sql_references import NotAQuery, Reference, sql_references
from headwater.spec import PipelineSpec, SinkSpec, TableSpec
from headwater.values import Position, nearest

References = Callable[[TableSpec], "tuple[Reference, ...] | None"]

SESSION_PARAMETER = "spark"
"""A table function's parameter of this name gets the session instead of a table."""


def offline_references(table: TableSpec) -> tuple[Reference, ...] | None:
    """What a table reads, as far as it can be told without Spark."""
    if table.function:
        return tuple(Reference(name) for name in table.function.parameters if name != SESSION_PARAMETER)
    try:
        return sql_references(table.sql or "")
    except NotAQuery as error:
        raise PipelineError(SQL_NOT_A_QUERY.at(table.position, name=table.name, kind=str(error))) from None


@dataclass(frozen=True)
class Graph:
    """Who reads whom. A table whose SQL can't be read offline has None for what it reads."""

    spec: PipelineSpec
    reads: Mapping[str, tuple[str, ...] | None]
    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, spec: PipelineSpec, references: References = offline_references) -> Graph:
        """The graph, with every problem found on the way: no queries, unknown tables, circles."""
        names = {name.lower(): name for name in spec.names}
        reads: dict[str, tuple[str, ...] | None] = {source.name: () for source in spec.sources}
        problems: list[Problem] = []
        for table in spec.tables:
            try:
                found = references(table)
            except PipelineError as error:
                problems += error.problems
                found = ()
            if found is None:
                reads[table.name] = None
                continue
            reads[table.name] = tuple(names[r.name.lower()] for r in found if r.name.lower() in names)
            problems += [_unknown(spec, table, r) for r in found if r.name.lower() not in names]
        problems += [_unknown_sink(spec, sink) for sink in spec.sinks if sink.reads.lower() not in names]
        graph = cls(spec, reads)
        return cls(spec, reads, (*problems, *graph._circles()))

    def upstream(self, *names: str) -> tuple[str, ...]:
        """The sources and tables that `names` need, themselves too, each after all that it reads."""
        needed: dict[str, tuple[str, ...]] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed[name] = self.reads.get(name) or ()
                waiting += needed[name]
        return tuple(TopologicalSorter(needed).static_order())

    def streaming(self, name: str) -> bool | None:
        """Whether a source or table streams: it does when anything that it reads does."""
        answers: dict[str, bool | None] = {source.name: not source.static for source in self.spec.sources}
        for each in self.upstream(name):
            if each not in answers:
                answers[each] = _any(self.reads.get(each), answers)
        return answers[name]

    def _circles(self) -> Iterator[Problem]:
        places = {table.name: table.position for table in self.spec.tables}
        reported: set[frozenset[str]] = set()
        for name in places:
            circle = self._circle_from(name)
            if circle and frozenset(circle) not in reported:
                reported.add(frozenset(circle))
                yield CYCLE.at(places[name], cycle=" → ".join((*circle, circle[0])))

    def _circle_from(self, start: str) -> tuple[str, ...] | None:
        """The shortest way from a table back to itself."""
        paths: list[tuple[str, ...]] = [(start,)]
        seen = {start}
        while paths:
            path = paths.pop(0)
            for other in self.reads.get(path[-1]) or ():
                if other == start:
                    return path
                if other not in seen:
                    seen.add(other)
                    paths.append((*path, other))
        return None


def _any(read: tuple[str, ...] | None, answers: Mapping[str, bool | None]) -> bool | None:
    if read is None:
        return None
    found = [answers[name] for name in read]
    if True in found:
        return True
    return None if None in found else False


def _unknown(spec: PipelineSpec, table: TableSpec, reference: Reference) -> Problem:
    place: Position | None = table.position
    if table.sql is not None and table.text is not None:
        place = table.text.at(reference.line, reference.column)
    return UNKNOWN_TABLE.at(
        place, where=f"the table `{table.name}`", name=reference.name, hint=_hint(spec, reference.name)
    )


def _unknown_sink(spec: PipelineSpec, sink: SinkSpec) -> Problem:
    return UNKNOWN_TABLE.at(
        sink.reads_position or sink.position,
        where=f"the sink `{sink.name}`",
        name=sink.reads,
        hint=_hint(spec, sink.reads),
    )


def _hint(spec: PipelineSpec, name: str) -> str:
    meant = nearest(name, spec.names)
    if meant:
        return f"Did you mean `{meant}`?"
    return f"Declared are: {', '.join(sorted(spec.names)) or 'none'}."
