"""Rules about expectations: invalid conditions, and rows that cannot be quarantined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.checkpoint import Read
from headwater.checks.rules import Finding, Match, Severity, Situation, pipeline_rule
from headwater.connectors import source_side
from headwater.errors import Entry, Problem
from headwater.errors.catalogue.pipelines import EXPECTATION_COLUMN_NOT_FOUND, EXPECTATION_SYNTAX
from headwater.errors.problems import shown_file
from headwater.plan.graph import NotAQuery, parsed_query
from headwater.plan.predicates import column_problem, columns_of, condition_problem
from headwater.plan.quarantine import quarantine_of, replay_stream
from headwater.spec import Deduplication, Expectation, PipelineSpec, SourceSpec, TableSpec
from headwater.values import Never, OnViolation, quoted


def known_columns(spec: PipelineSpec, name: str, readers: frozenset[str] = frozenset()) -> list[str] | None:
    """The columns of a source or table; None if only Spark knows them, and in a cycle."""
    if name.lower() in readers:
        return None
    readers |= {name.lower()}
    match {each.name.lower(): each for each in spec.readable}.get(name.lower()):
        case SourceSpec() as source:
            columns = columns_of(source)
            return None if columns is None else list(columns)
        case TableSpec(deduplicate=Deduplication(reads=read)):
            return known_columns(spec, read, readers)
        case TableSpec(sql=str(sql)):
            return _selected(spec, sql, readers)
    return None


def _selected(spec: PipelineSpec, sql: str, readers: frozenset[str]) -> list[str] | None:
    """The columns of a plain SELECT whose columns all have a name."""
    try:
        query = parsed_query(sql)
    except (SqlglotError, NotAQuery, RecursionError, ValueError):
        return None
    if not isinstance(query, exp.Select) or query.args.get("laterals") or query.args.get("with_"):
        return None
    found: list[str] = []
    for each in query.expressions:
        if isinstance(each, exp.Alias) or (isinstance(each, exp.Column) and not each.is_star):
            found.append(each.alias_or_name)
            continue
        # The columns of `*` are known if the query reads one table.
        origin = query.args.get("from_") or query.args.get("from")
        table = origin.this if origin and not query.args.get("joins") else None
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            return None
        plain = isinstance(each, exp.Star) and not any(each.args.values())
        inner = known_columns(spec, table.name, readers) if plain else None
        if inner is None or table.db or table.args.get("pivots"):
            return None
        found += inner
    return found


@pipeline_rule(
    entries=[EXPECTATION_SYNTAX, EXPECTATION_COLUMN_NOT_FOUND],
    example="""
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int, cost: double}}
        tables:
          priced: {sql: SELECT * FROM orders, expect: {paid: costs >= 0}}
    """,
)
def expectation_condition(situation: Situation) -> Iterator[Finding]:
    """The condition of an expectation must be valid SQL and use existing columns. If the columns are
    declared, this check does not need Spark."""
    for table in (each for each in situation.spec.tables if each.expect):
        columns = known_columns(situation.spec, table.name)
        for each in table.expect:
            problem = condition_problem(table, each)
            if problem is None and columns is not None:
                problem = column_problem(table, each, columns)
            if problem:
                yield Finding(problem, table=table.name)


EXPECTATION_QUARANTINE_NOT_REPLAYABLE = Entry(
    "Table `{table}` cannot quarantine rows: the quarantine is a separate query, but source `{source}` "
    "({connector}) delivers each row to one query only.",
    "Set `on_violation: drop` or `on_violation: fail` on expectation `{expectation}`, or use a replayable "
    "source, such as `files` or `kafka`.",
    code="HW-EXPECTATION-QUARANTINE-NOT-REPLAYABLE",
)
EXPECTATION_QUARANTINE_STATEFUL = Entry(
    "Table `{table}` cannot quarantine rows after {operator}: the quarantine is a separate query with its "
    "own state, and its results can differ.",
    "Move the expectation to a table before {operator}, or set `on_violation: drop` or `on_violation: fail` "
    "on expectation `{expectation}`.",
    code="HW-EXPECTATION-QUARANTINE-STATEFUL",
)
EXPECTATION_QUARANTINE_NONDETERMINISTIC = Entry(
    "Table `{table}` cannot quarantine rows: `{part}` can have a different value in the quarantine query. A "
    "row could be both emitted and quarantined, or neither.",
    "Use only columns of the row in the condition, or set `on_violation: drop` on expectation "
    "`{expectation}`.",
    code="HW-EXPECTATION-QUARANTINE-NONDETERMINISTIC",
)
EXPECTATION_QUARANTINE_STATIC = Entry(
    "Table `{table}` cannot quarantine rows: it does not read a stream.",
    "Set `on_violation: drop` or `on_violation: fail` on expectation `{expectation}`.",
    code="HW-EXPECTATION-QUARANTINE-STATIC",
)
EXPECTATION_QUARANTINE_REFRESHED = Entry(
    "Table `{table}` quarantines rows, but its static source `{source}` is refreshed ({refresh}), so the "
    "quarantine query can see different static rows. A row could be both emitted and quarantined, or "
    "neither.",
    "Set `refresh: never` on source `{source}`, use only other columns in the condition, or set "
    "`on_violation: drop` on expectation `{expectation}`.",
    code="HW-EXPECTATION-QUARANTINE-REFRESHED",
)


@pipeline_rule(
    entries={
        EXPECTATION_QUARANTINE_NOT_REPLAYABLE: Severity.ERROR,
        EXPECTATION_QUARANTINE_STATEFUL: Severity.ERROR,
        EXPECTATION_QUARANTINE_NONDETERMINISTIC: Severity.ERROR,
        EXPECTATION_QUARANTINE_STATIC: Severity.ERROR,
        EXPECTATION_QUARANTINE_REFRESHED: Severity.WARNING,
    },
    example="""
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int, cost: double}}
        tables:
          once:
            reads: orders
            deduplicate: id
            expect: {paid: {condition: cost >= 0, on_violation: quarantine}}
    """,
)
def expectation_quarantine(situation: Situation) -> Iterator[Finding]:
    """A separate query writes rows to the quarantine. It must read the same rows and evaluate the condition
    with the same result."""
    for table in situation.spec.tables:
        for each in [each for each in table.expect if each.on_violation is OnViolation.QUARANTINE][:1]:
            for problem in _against(situation, table, each):
                severity = expectation_quarantine.entries[problem.entry]
                yield Finding(problem, severity, table=table.name)


def refused_quarantines(findings: Iterable[Finding]) -> set[str]:
    """The quarantine queries of the tables that cannot quarantine rows."""
    refused = {entry for entry, how in expectation_quarantine.entries.items() if how is Severity.ERROR}
    return {quarantine_of(each.table) for each in findings if each.problem.entry in refused}


def _against(situation: Situation, table: TableSpec, each: Expectation) -> Iterator[Problem]:
    facts = situation.facts.get(quarantine_of(table.name))
    named = {"table": table.name, "expectation": each.name}
    if situation.graph.streaming(table.name) is False:
        yield EXPECTATION_QUARANTINE_STATIC.at(each.position, **named)
    needed = situation.graph.upstream(table.name)
    sources = [source for source in situation.spec.sources if source.name in needed]
    for source in sources:
        if not source.static and not source_side(source.connector).replayable:
            params = {"source": source.name, "connector": source.connector}
            yield EXPECTATION_QUARANTINE_NOT_REPLAYABLE.at(each.position, **named, **params)
    stateful = [operator.name for operator in facts.stateful] if facts else []
    if table.deduplicate and not stateful:
        stateful = [f"dropDuplicates{'WithinWatermark' if table.deduplicate.within_watermark else ''}"]
    if stateful:
        yield EXPECTATION_QUARANTINE_STATEFUL.at(each.position, **named, operator=f"`{stateful[-1]}`")
    # A part without a table is the quarantine's own timestamp.
    parts = (*facts.non_deterministic, *facts.clock_reads) if facts else ()
    for part in [part.sql for part in parts if part.table][:1]:
        yield EXPECTATION_QUARANTINE_NONDETERMINISTIC.at(each.position, **named, part=part)
    for source in sources:
        # Two queries can see different rows of such a source.
        if source.static and not isinstance(source.refresh, Never):
            params = {"source": source.name, "refresh": str(source.refresh)}
            yield EXPECTATION_QUARANTINE_REFRESHED.at(each.position, **named, **params)


# A rule about bad-row rules that change while queries are at different offsets.


@pipeline_rule(
    "HW-QUARANTINE-RULES-CHANGED",
    "`{name}`: the bad-row rules changed while its queries are at different offsets: {queries}. Bad rows "
    "between these offsets can be lost, or duplicated by a replay.",
    "Restore the old definition, run `headwater run {file} --until-idle` so that all queries catch up, then "
    "apply the change.",
    Severity.WARNING,
    example="""
        sources:
          orders:
            connector: files
            path: orders/
            format: json
            schema: {id: int, cost: double}   # before: cost: int; `quarantine.orders` lags behind
            bad_rows: quarantine
    """,
    lasting=False,
)
def quarantine_rules_changed(situation: Situation) -> Iterator[Match]:
    """Each query reads a source independently. Suppose one query has skipped a row as bad, and after the
    change another query reads it as valid: the row is missing in the first. If the second query is the
    quarantine, the row is not quarantined either."""
    file = shown_file(situation.spec.declared_in) or "FILE"
    for declared in situation.spec.readable:
        name = declared.name
        # The queries that resume, and always the quarantine: if it was killed before its first batch, it has
        # yet to read the rows that the others have skipped.
        now = {
            sink: facts.verdicts[name] for sink, facts in situation.facts.items() if name in facts.verdicts
        }
        readers = [sink for sink in now if sink in situation.reached or sink == quarantine_of(name)]
        # The rules at the last start; older metadata does not record them.
        stored = {sink: situation.stored[sink].verdicts for sink in readers if sink in situation.stored}
        changed = any(then.get(name, now[sink]) != now[sink] for sink, then in stored.items())
        if changed and _apart(situation, readers, name):
            yield Match.at(declared.position, name=name, queries=quoted(readers), file=file)


def _apart(situation: Situation, readers: list[str], name: str) -> bool:
    """Whether they have not all read the same, or the progress of one is unknown."""
    below = situation.graph.upstream(name)
    inputs = {*below, *map(replay_stream, below)}
    reads = [situation.reached[sink].committed() if sink in situation.reached else {} for sink in readers]
    known = [
        {source: found for source, found in each.items() if source in inputs and found != Read()}
        for each in reads
        if each is not None
    ]
    unknown = len(known) < len(reads)
    return len(reads) > 1 and (unknown or any(each != known[0] for each in known))


# A rule about replayed rows.


@pipeline_rule(
    "HW-REPLAYED-ROWS-DUPLICATED",
    "Sink `{sink}` starts from scratch and also reads the replayed rows of `{source}`. Rows that are valid "
    "in the source by now are duplicated.",
    "Drop duplicates with a table (`deduplicate:`), or start the whole pipeline from scratch: set a new run "
    "directory (`run_dir:`) and new output paths.",
    Severity.WARNING,
    example="""
        sources:
          orders:   # `headwater quarantine replay` replayed 3 rows
            {connector: files, path: orders/, format: json, schema: {id: int}, bad_rows: quarantine}
        sinks:
          added_later: {reads: orders, connector: console}
    """,
    lasting=False,
)
def replayed_rows_duplicated(situation: Situation) -> Iterator[Match]:
    """A new query reads all rows of its source and all rows that were replayed before. A row that is valid in
    the source by now is read twice."""
    new = set(situation.facts) - set(situation.stored) - set(situation.reached)
    for sink in (each for each in situation.spec.sinks if each.name in new):
        inputs = situation.facts[sink.name].inputs
        for source in [each.name for each in situation.spec.readable if replay_stream(each.name) in inputs]:
            yield Match.at(sink.position, sink=sink.name, source=source)
