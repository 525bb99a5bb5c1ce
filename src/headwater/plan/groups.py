"""Sink groups: the table that the query of a group computes, and the branches from there to its sinks."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.plan.graph import Graph
from headwater.spec import QuerySpec


def tables_read(graph: Graph, query: QuerySpec) -> tuple[str, ...] | None:
    """The table of each sink as declared, in their order; None if one of them is not declared."""
    names = {name.lower(): name for name in graph.spec.names}
    read = tuple(names.get(sink.reads.lower(), "") for sink in query.sinks)
    return read if all(read) else None


def group_table(graph: Graph, query: QuerySpec) -> str:
    """The table that the query of a group computes; empty if there is none."""
    read = tables_read(graph, query)
    return (common_table(graph, read) if read else None) or ""


def is_known(graph: Graph, reads: Iterable[str]) -> bool:
    """Whether it is known what these tables read; offline, some SQL is unknown."""
    return all(graph.reads.get(each) is not None for each in graph.upstream(*reads))


def common_table(graph: Graph, reads: Iterable[str]) -> str | None:
    """The source or table from which all these can be computed without reading a stream again.

    Every stream that reaches one of them passes through it. Of several such tables, it is the last one. None if there
    is none.
    """
    names = tuple(dict.fromkeys(reads))
    shared = set.intersection(*(set(graph.upstream(each)) for each in names))
    for candidate in reversed(graph.upstream(*names)):
        if candidate in shared and graph.streaming(candidate) and _all_pass(graph, names, candidate):
            return candidate
    return None


def branch(graph: Graph, common: str, read: str) -> tuple[str, ...]:
    """The tables between the common table and what a sink reads, with the latter, in the order of their inputs."""
    above = set(graph.upstream(common))
    return tuple(each for each in graph.upstream(read) if each not in above and graph.streaming(each))


def _all_pass(graph: Graph, names: Iterable[str], candidate: str) -> bool:
    """Whether no stream reaches these tables except through the candidate."""
    sources = {source.name for source in graph.spec.sources if not source.static}
    seen, waiting = set[str](), [each for each in names if each != candidate]
    while waiting:
        name = waiting.pop()
        if name in sources:
            return False
        if name not in seen:
            seen.add(name)
            waiting += [each for each in graph.reads.get(name) or () if each != candidate]
    return True
