"""How far the queries of a run folder have read what has set rows aside."""

from __future__ import annotations

from headwater.connectors import sink_side
from headwater.errors import CheckpointError, Problem
from headwater.errors.catalogue.quarantine import REPLAY_PLACE_UNKNOWN
from headwater.plan import Graph
from headwater.plan.quarantine import quarantine_of, with_quarantine
from headwater.plan.verdicts import verdicts_of
from headwater.quarantine import Quarantine
from headwater.quarantine.unread import Unread
from headwater.runtime.run_folder import RunFolder
from headwater.spec import PipelineSpec, SinkSpec


def unread_of(spec: PipelineSpec, folder: RunFolder, quarantine: Quarantine, file: str) -> Unread:
    """Which queries have yet to read a row; CheckpointError where that can't be told of a query.

    A query that never started is not among them, nor one that begins anew at each start: a rule speaks of
    these when they start.
    """
    whole, name = with_quarantine(spec), quarantine.name
    graph, problems = Graph.of(whole), list[Problem]()
    readers = {}
    for sink in (
        each for each in whole.sinks if _goes_on(folder, each) and _reads(graph, folder, each, name)
    ):
        read = folder.committed(sink.name)
        if read is None:
            problems.append(REPLAY_PLACE_UNKNOWN.at(sink.position, sink=sink.name, name=name, file=file))
        else:
            readers[sink.name] = read
    set_aside = folder.planned(quarantine_of(name))
    if set_aside is None and readers and name in {table.name for table in spec.tables}:
        sink_name = quarantine_of(name)
        problems.append(REPLAY_PLACE_UNKNOWN.at(None, sink=sink_name, name=name, file=file))
    if problems:
        raise CheckpointError.of(problems)
    return Unread.of(quarantine, readers, set_aside or {})


def redefined(spec: PipelineSpec, folder: RunFolder, name: str, sinks: tuple[str, ...]) -> bool:
    """Whether rows are set aside by something else than when one of these queries was last started."""
    now = verdicts_of(spec, Graph.of(spec), name).get(name)
    stored = (folder.stored_facts(sink) for sink in sinks)
    before = {facts.verdicts[name] for facts in stored if facts and name in facts.verdicts}
    return bool(before - {now})


def _goes_on(folder: RunFolder, sink: SinkSpec) -> bool:
    return not sink_side(sink.connector).in_process and folder.has_begun(sink.name)


def _reads(graph: Graph, folder: RunFolder, sink: SinkSpec, name: str) -> bool:
    names = {each.lower(): each for each in graph.spec.names}
    needed = graph.upstream(names.get(sink.reads.lower(), sink.reads))
    if name in needed:
        return True
    # Of a table whose SQL can't be read without Spark only its sources are known, from the last start.
    known = all(graph.reads.get(each, ()) is not None for each in needed)
    return not known and not set(graph.upstream(name)).isdisjoint(folder.committed(sink.name) or ())
