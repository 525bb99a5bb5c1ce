"""The graph of a pipeline: which table reads which, in which order they are built, what streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.pipelines import CYCLE, SQL_NOT_A_QUERY, UNKNOWN_TABLE
from headwater.errors.catalogue.running import SQL_SYNTAX
from headwater.plan.sql_references import NotAQuery, NotSql, Reference, sql_references
from headwater.spec import PipelineSpec, SinkSpec, TableSpec
from headwater.values import Position, nearest

References = Callable[[TableSpec], "tuple[Reference, ...] | None"]

SESSION_PARAMETER = "spark"
"""A table function's parameter of this name gets the session instead of a table."""


def offline_references(table: TableSpec) -> tuple[Reference, ...] | None:
    """What a table reads, as far as it can be told without Spark."""
    if table.distinct:
        return (Reference(table.distinct.reads),)
    if table.function:
        return tuple(Reference(name) for name in table.function.parameters if name != SESSION_PARAMETER)
    try:
        return sql_references(table.sql or "")
    except NotAQuery as error:
        raise PipelineError(SQL_NOT_A_QUERY.at(table.position, name=table.name, kind=str(error))) from None
    except NotSql as error:
        fault = error.fault
        place = table.text.at(fault.line, fault.column) if table.text else table.position
        raise PipelineError(SQL_SYNTAX.at(place, name=table.name, says=fault.says, hint=fault.hint)) from None


@dataclass(frozen=True)
class Graph:
    """Who reads whom. A table whose SQL can't be read offline has None for what it reads."""

    spec: PipelineSpec
    reads: Mapping[str, tuple[str, ...] | None]
    problems: tuple[Problem, ...] = ()
    faulty: frozenset[str] = frozenset()
    """Tables that can't be built, by themselves: what reads them is not listed."""

    @classmethod
    def of(
        cls,
        spec: PipelineSpec,
        references: References = offline_references,
        besides: Iterable[str] = (),
    ) -> Graph:
        """The graph, with every problem found on the way: no queries, unknown tables, circles.

        `besides` are names that were declared, too, and are not in the spec because they are wrong.
        """
        found = _Found(spec, {name.lower(): name for name in (*besides, *spec.names)})
        for table in spec.tables:
            found.table(table, references)
        for sink in spec.sinks:
            found.sink(sink)
        graph = cls(spec, found.reads)
        circles = dict(graph._circles())
        faulty = found.faulty.union(*circles)
        return replace(graph, problems=(*found.problems, *circles.values()), faulty=faulty)

    def upstream(self, *names: str) -> tuple[str, ...]:
        """The sources and tables that `names` need, themselves too, each after all that it reads."""
        order: dict[str, None] = {}
        begun: set[str] = set()
        waiting = [(name, False) for name in reversed(names)]
        while waiting:
            name, done = waiting.pop()
            if done:
                order[name] = None
            elif name not in begun:
                begun.add(name)
                waiting.append((name, True))
                waiting += [(other, False) for other in reversed(self.reads.get(name) or ())]
        return tuple(order)

    def readers(self, name: str) -> list[SinkSpec]:
        """The sinks whose queries need a source or table."""
        names = {each.lower(): each for each in self.spec.names}
        return [
            sink
            for sink in self.spec.sinks
            if sink.reads.lower() in names and name in self.upstream(names[sink.reads.lower()])
        ]

    def possible_readers(self, name: str) -> list[SinkSpec]:
        """The sinks whose queries need a source or table, or may: offline, some SQL can't be read."""
        unknown = [table for table, reads in self.reads.items() if reads is None]
        found = [sink for each in (name, *unknown) for sink in self.readers(each)]
        return [sink for sink in self.spec.sinks if sink in found]

    def sound(self, name: str) -> bool:
        """Whether a source or table, and all that it needs, can be built as far as the graph tells."""
        declared = next((each for each in self.reads if each.lower() == name.lower()), None)
        return declared is not None and self.faulty.isdisjoint(self.upstream(declared))

    def streaming(self, name: str) -> bool | None:
        """Whether a source or table streams: it does when anything that it reads does."""
        answers: dict[str, bool | None] = {source.name: not source.static for source in self.spec.sources}
        for each in self.upstream(name):
            if each not in answers:
                answers[each] = _any(self.reads.get(each), answers)
        return answers[name]

    def _circles(self) -> Iterator[tuple[frozenset[str], Problem]]:
        places = {table.name: table.position for table in self.spec.tables}
        reported: set[frozenset[str]] = set()
        for name in places:
            circle = self._circle_from(name)
            if circle and frozenset(circle) not in reported:
                reported.add(frozenset(circle))
                yield frozenset(circle), CYCLE.at(places[name], cycle=" → ".join((*circle, circle[0])))

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


class _Found:
    """What is read while a graph is made, and what is wrong with it."""

    def __init__(self, spec: PipelineSpec, names: Mapping[str, str]) -> None:
        self.names = names
        self.built = {name.lower() for name in spec.names}
        self.reads: dict[str, tuple[str, ...] | None] = {source.name: () for source in spec.sources}
        self.problems: list[Problem] = []
        self.faulty: frozenset[str] = frozenset()

    def table(self, table: TableSpec, references: References) -> None:
        try:
            found = references(table)
        except PipelineError as error:
            self.problems += error.problems
            self.faulty |= {table.name}
            found = ()
        if found is None:
            self.reads[table.name] = None
            return
        lowered = [reference.name.lower() for reference in found]
        self.reads[table.name] = tuple(self.names[name] for name in lowered if name in self.built)
        self.problems += [_unknown(self.names, table, r) for r in found if r.name.lower() not in self.names]
        if not self.built.issuperset(lowered):
            self.faulty |= {table.name}

    def sink(self, sink: SinkSpec) -> None:
        if sink.reads.lower() not in self.names:
            self.problems.append(_unknown_sink(self.names, sink))


def _any(read: tuple[str, ...] | None, answers: Mapping[str, bool | None]) -> bool | None:
    if read is None:
        return None
    found = [answers.get(name) for name in read]
    if True in found:
        return True
    return None if None in found else False


def _unknown(names: Mapping[str, str], table: TableSpec, reference: Reference) -> Problem:
    place: Position | None = table.position
    if table.sql is not None and table.text is not None:
        place = table.text.at(reference.line, reference.column)
    elif table.function is not None:
        place = table.function.defined or place
    elif table.distinct is not None:
        place = table.distinct.reads_position or place
    return UNKNOWN_TABLE.at(
        place, where=f"the table `{table.name}`", name=reference.name, hint=_hint(names, reference.name)
    )


def _unknown_sink(names: Mapping[str, str], sink: SinkSpec) -> Problem:
    return UNKNOWN_TABLE.at(
        sink.reads_position or sink.position,
        where=f"the sink `{sink.name}`",
        name=sink.reads,
        hint=_hint(names, sink.reads),
    )


def _hint(names: Mapping[str, str], name: str) -> str:
    meant = nearest(name, names.values())
    if meant:
        return f"Did you mean `{meant}`?"
    return f"Declared are: {', '.join(sorted(names.values())) or 'none'}."
