"""Rules about sink groups: whether one query can compute what all of their sinks write."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.changes import joins_group
from headwater.checks.rules import Match, Severity, Situation, pipeline_rule
from headwater.errors import Entry
from headwater.plan.groups import branch, common_table, is_known, tables_read
from headwater.plan.operators import STATEFUL, Expression, Kind, Operator
from headwater.plan.quarantine import quarantines_rows
from headwater.plan.sql import names_metadata
from headwater.run_directory import RunDirectory
from headwater.spec import QuerySpec, SinkSpec, TableSpec
from headwater.values import quoted

_NOT_PER_BATCH = STATEFUL | {
    Kind.GROUPED_MAP,
    Kind.COGROUPED_MAP,
    Kind.OFFSET,
    Kind.SET_OPERATION,
    Kind.WINDOW_FUNCTION,
}
"""The operations whose result over one batch is not a part of the result over the stream."""


def _groups(situation: Situation) -> Iterator[tuple[QuerySpec, tuple[str, ...]]]:
    """The groups whose tables are known, with the table of each sink."""
    for query in situation.spec.queries:
        read = tables_read(situation.graph, query) if query.is_group else None
        if read and is_known(situation.graph, read):
            yield query, read


def _branches(situation: Situation) -> Iterator[tuple[SinkSpec, str, tuple[str, ...]]]:
    """The sinks of groups with a common table, that table, and the tables from there to the sink."""
    for query, read in _groups(situation):
        common = common_table(situation.graph, read)
        for sink, name in zip(query.sinks, read, strict=True) if common else ():
            yield sink, common or "", branch(situation.graph, common or "", name)


@pipeline_rule(
    "HW-GROUP-TABLES-UNRELATED",
    "Group `{group}`: its sinks read {tables}, which have no table in common. One query cannot compute all of them "
    "from one batch.",
    "Group only sinks that read the same table, or tables computed from one table without state.",
    example="""
        sinks:
          orders: {reads: orders, connector: noop, group: all}
          clicks: {reads: clicks, connector: noop, group: all}
    """,
)
def group_tables_unrelated(situation: Situation) -> Iterator[Match]:
    """The query of a group computes one table, and builds what each sink writes from its batches. Every stream
    that reaches a sink must pass through this table."""
    for query, read in _groups(situation):
        streams = [each for each in read if situation.graph.streaming(each)]
        # A separate rule rejects static tables and cycles.
        if len(streams) == len(read) and common_table(situation.graph, read) is None:
            tables = quoted(dict.fromkeys(read), last=" and ")
            place = query.sinks[0].at("group")
            yield Match.at(place, sink=query.sinks[0].name, group=query.name, tables=tables)


BRANCH_STATEFUL = Entry(
    "Sink `{sink}` of group `{group}`: between the common table `{common}` and the sink, table `{name}` uses "
    "`{operation}`. Its result depends on more than one batch.",
    "Set `reads: {name}` on all sinks of the group, or remove `group` from this sink: it then has its own query.",
    code="HW-GROUP-BRANCH-STATEFUL",
)
BRANCH_CLOCK = Entry(
    "Sink `{sink}` of group `{group}`: between the common table `{common}` and the sink, table `{name}` calls "
    "`{operation}`, which returns a different time if Spark retries the batch.",
    "Compute the time in table `{common}`, or remove `group` from this sink: it then has its own query.",
    code="HW-GROUP-BRANCH-CLOCK",
)


@pipeline_rule(
    entries=[BRANCH_STATEFUL, BRANCH_CLOCK],
    example="""
        tables:
          totals: SELECT shop, sum(amount) AS amount FROM orders GROUP BY shop
        sinks:
          orders: {reads: orders, connector: noop, mode: update, group: all}
          totals: {reads: totals, connector: noop, mode: update, group: all}
    """,
)
def group_branch_stateful(situation: Situation) -> Iterator[Match]:
    """The tables between the common table of a group and a sink are computed from each batch on its own. An
    aggregation, a deduplication, a join of two streams or a limit would start again with every batch."""
    for sink, common, tables in _branches(situation):
        facts = situation.facts.get(sink.name)
        steps: list[tuple[Operator | Expression, str, Entry]] = []
        if facts:
            found = facts.steps(*_NOT_PER_BATCH)
            steps += [(each, each.name, BRANCH_STATEFUL) for each in found]
            steps += [(each, f"{each.sql}()", BRANCH_CLOCK) for each in facts.clock_reads]
        elif not situation.facts:
            for table in (each for each in situation.spec.tables if each.name in tables and each.deduplicate):
                params = {"name": table.name, "operation": "deduplicate"}
                yield _match(situation, sink, common, table, BRANCH_STATEFUL, params)
        for step, operation, entry in steps:
            if step.table in tables:
                table = _table(situation, step.table)
                params = {"name": step.table, "operation": operation}
                yield _match(situation, sink, common, table, entry, params, step.line, step.column)


def _match(
    situation: Situation,
    sink: SinkSpec,
    common: str,
    table: TableSpec,
    entry: Entry,
    params: dict[str, str],
    line: int = 0,
    column: int = 0,
) -> Match:
    place = table.text.at(line, column) if table.text and line else table.position
    named = {"group": sink.group or "", "common": common, **params}
    return Match(place, named, sink.name, table.name, entry=entry)


def _table(situation: Situation, name: str) -> TableSpec:
    return next(each for each in situation.spec.tables if each.name == name)


BRANCH_QUARANTINE = Entry(
    "Sink `{sink}` of group `{group}`: table `{name}`, between the common table `{common}` and the sink, quarantines "
    "rows. Replayed rows are a stream of their own and do not pass through `{common}`.",
    "Set `reads: {name}` on all sinks of the group, move the expectation to `{common}`, or set another `on_violation`.",
    code="HW-GROUP-BRANCH-QUARANTINE",
)
BRANCH_METADATA = Entry(
    "Sink `{sink}` of group `{group}`: table `{name}` reads `_metadata` of source `{common}`, which the cached rows of "
    "a batch do not have.",
    "Select the fields of `_metadata` in one table, and let all sinks of the group read it or tables computed from it.",
    code="HW-GROUP-BRANCH-METADATA",
)


@pipeline_rule(
    entries=[BRANCH_QUARANTINE, BRANCH_METADATA],
    example="""
        tables:
          paid:
            sql: SELECT * FROM orders WHERE paid
            expect: {positive: {condition: amount > 0, on_violation: quarantine}}
        sinks:
          orders: {reads: orders, connector: noop, group: all}
          paid: {reads: paid, connector: noop, group: all}
    """,
)
def group_branch_unsupported(situation: Situation) -> Iterator[Match]:
    """The tables between the common table of a group and a sink have only the rows and columns of the common table."""
    sources = {source.name for source in situation.spec.sources}
    directory = RunDirectory(situation.spec.run_dir)
    for sink, common, tables in _branches(situation):
        for name in tables:
            table = _table(situation, name)
            entry = None
            if quarantines_rows(table) or directory.quarantine(name).replayed:
                entry = BRANCH_QUARANTINE
            elif common in sources and names_metadata(table):
                entry = BRANCH_METADATA
            if entry:
                yield _match(situation, sink, common, table, entry, {"name": name})


QUERY_CHANGED = Entry(
    "Sink `{sink}`: its query is now `{query}`, but another query has written it before (checkpoint {checkpoint}). "
    "Rows that were written there are written again, or skipped.",
    "Restore `group` as it was, or write to a new target under a new sink name. If the change is intentional, "
    "suppress this finding, or delete the old checkpoint.",
    code="HW-GROUP-QUERY-CHANGED",
)


@pipeline_rule(
    entries=[QUERY_CHANGED],
    example="""
        sinks:
          orders: {reads: orders, connector: noop, group: all}   # before: without `group`
    """,
    lasting=False,
)
def group_query_changed(situation: Situation) -> Iterator[Match]:
    """A group has a checkpoint of its own. A sink that joins or leaves a group, or moves to another one, continues at
    the offsets of another query: rows between the two are written twice or not at all."""
    for name, checkpoint in situation.written_by.items():
        sink = situation.sink(name)
        params = {"query": sink.query, "checkpoint": checkpoint}
        yield Match(sink.at("group"), params, name, suppressible=True)


@pipeline_rule(
    "HW-GROUP-SINK-ADDED",
    "Sink `{sink}` is new in group `{group}`, which continues with batch {batch}. The sink does not receive the rows "
    "of earlier batches.",
    "If it needs them, give it its own query: remove `group`. Or write them once with `headwater run --batch`.",
    Severity.WARNING,
    example="""
        sinks:
          orders: {reads: orders, connector: noop, group: all}
          copy: {reads: orders, connector: noop, group: all}   # added later
    """,
    lasting=False,
)
def group_sink_added(situation: Situation) -> Iterator[Match]:
    """The sinks of a group share one checkpoint, so a sink that is added later starts at the group's offsets."""
    for sink in situation.spec.sinks:
        if joins_group(situation, sink):
            batch = situation.reached[sink.name].batch + 1
            yield Match.at(sink.at("group"), sink=sink.name, group=sink.group or "", batch=batch)
