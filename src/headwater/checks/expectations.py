"""What is wrong with the expectations of tables: conditions, and rows that can't be set aside."""

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
from headwater.spec import Distinct, Expectation, PipelineSpec, SourceSpec, TableSpec
from headwater.values import Never, Otherwise, quoted


def known_columns(spec: PipelineSpec, name: str, readers: frozenset[str] = frozenset()) -> list[str] | None:
    """The columns of a source or table; None where only Spark can tell, and in a circle."""
    if name.lower() in readers:
        return None
    readers |= {name.lower()}
    match {each.name.lower(): each for each in spec.readable}.get(name.lower()):
        case SourceSpec() as source:
            columns = columns_of(source)
            return None if columns is None else list(columns)
        case TableSpec(distinct=Distinct(reads=read)):
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
        # What `*` stands for is known where one table is read.
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
    """A condition that can't be read, or asks for a column that is not there: no Spark is needed to see."""
    for table in (each for each in situation.spec.tables if each.expect):
        columns = known_columns(situation.spec, table.name)
        for each in table.expect:
            problem = condition_problem(table, each)
            if problem is None and columns is not None:
                problem = column_problem(table, each, columns)
            if problem:
                yield Finding(problem, table=table.name)


EXPECTATION_QUARANTINE_NOT_REPLAYABLE = Entry(
    "The table `{table}` sets rows aside, which takes a query of its own, but its source `{source}` "
    "({connector}) gives each row to one query only.",
    "Write `else: drop` or `else: fail` at the expectation `{expectation}`, or take a source that keeps its "
    "rows, such as files or Kafka.",
    code="HW-EXPECTATION-QUARANTINE-NOT-REPLAYABLE",
)
EXPECTATION_QUARANTINE_STATEFUL = Entry(
    "The table `{table}` sets rows aside, but its rows come out of {operator}, which keeps state: the query "
    "that sets them aside would keep it all a second time, and may see other results.",
    "Let a table below {operator} set rows aside, or write `else: drop` or `else: fail` at the expectation "
    "`{expectation}`.",
    code="HW-EXPECTATION-QUARANTINE-STATEFUL",
)
EXPECTATION_QUARANTINE_NONDETERMINISTIC = Entry(
    "The table `{table}` sets rows aside, but `{part}` may be another value in the query that sets them "
    "aside: a row could go on and be set aside as well, or neither.",
    "Judge by columns that a row brings along, or write `else: drop` at the expectation `{expectation}`.",
    code="HW-EXPECTATION-QUARANTINE-NONDETERMINISTIC",
)
EXPECTATION_QUARANTINE_STATIC = Entry(
    "The table `{table}` sets rows aside, but it reads no stream, and only a stream sets rows aside.",
    "Write `else: drop` or `else: fail` at the expectation `{expectation}`.",
    code="HW-EXPECTATION-QUARANTINE-STATIC",
)
EXPECTATION_QUARANTINE_REFRESHED = Entry(
    "The table `{table}` sets rows aside, and its static source `{source}` is refreshed ({refresh}): the "
    "query that sets rows aside may see other rows of it, so that a row could go on and be set aside as "
    "well, or neither.",
    "Write `refresh: never` at the source `{source}`, or judge by columns that don't come from it, or write "
    "`else: drop` at the expectation `{expectation}`.",
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
          once: {reads: orders, distinct: id, expect: {paid: {check: cost >= 0, else: quarantine}}}
    """,
)
def expectation_sets_aside(situation: Situation) -> Iterator[Finding]:
    """Rows are set aside by a query of their own, which has to see the same rows and judge them alike."""
    for table in situation.spec.tables:
        for each in [each for each in table.expect if each.otherwise is Otherwise.QUARANTINE][:1]:
            for problem in _against(situation, table, each):
                severity = expectation_sets_aside.entries[problem.entry]
                yield Finding(problem, severity, table=table.name)


def refused_quarantines(findings: Iterable[Finding]) -> set[str]:
    """The queries that would set rows aside, of the tables that can't."""
    refused = {entry for entry, how in expectation_sets_aside.entries.items() if how is Severity.ERROR}
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
    if table.distinct and not stateful:
        stateful = [f"dropDuplicates{'WithinWatermark' if table.distinct.within_watermark else ''}"]
    if stateful:
        yield EXPECTATION_QUARANTINE_STATEFUL.at(each.position, **named, operator=f"`{stateful[-1]}`")
    # What no declared thing brought is the quarantine's own note of the time.
    parts = (*facts.non_deterministic, *facts.clock_reads) if facts else ()
    for part in [part.sql for part in parts if part.table][:1]:
        yield EXPECTATION_QUARANTINE_NONDETERMINISTIC.at(each.position, **named, part=part)
    for source in sources:
        # Of such a source two queries may see different rows.
        if source.static and not isinstance(source.refresh, Never):
            params = {"source": source.name, "refresh": str(source.refresh)}
            yield EXPECTATION_QUARANTINE_REFRESHED.at(each.position, **named, **params)


# A rule about rows that are judged in another way while queries stand at different places.


@pipeline_rule(
    "HW-QUARANTINE-RULES-CHANGED",
    "`{name}` judges its rows in another way than at the last start, and the queries that read it stand at "
    "different places, as far as can be told: {queries}. Of the rows between these places, one that was bad "
    "before can be lost, or come twice when it is fed again.",
    "Put the old definition back, let all queries read equally far (`headwater run {file} --until-idle`), "
    "then change it.",
    Severity.WARNING,
    example="""
        sources:
          orders:
            connector: files
            path: orders/
            format: json
            schema: {id: int, cost: double}   # cost was int, and `quarantine.orders` has not read all files
            bad_rows: quarantine
    """,
    lasting=False,
)
def judged_apart(situation: Situation) -> Iterator[Match]:
    """Each query reads a source by itself. A row that one has left out as bad, and that another one now reads
    as good, is missing in the first; if the other one is the quarantine, it is not set aside either."""
    file = shown_file(situation.spec.declared_in) or "FILE"
    for declared in situation.spec.readable:
        name = declared.name
        # The queries that read it and go on, and always its quarantine: one that was killed before its first
        # batch has yet to read the rows that others have left out.
        now = {
            sink: facts.verdicts[name] for sink, facts in situation.facts.items() if name in facts.verdicts
        }
        readers = [sink for sink in now if sink in situation.reached or sink == quarantine_of(name)]
        # By what rows were judged at the last start, which older facts don't tell.
        stored = {sink: situation.stored[sink].verdicts for sink in readers if sink in situation.stored}
        changed = any(then.get(name, now[sink]) != now[sink] for sink, then in stored.items())
        if changed and _apart(situation, readers, name):
            yield Match.at(declared.position, name=name, queries=quoted(readers), file=file)


def _apart(situation: Situation, readers: list[str], name: str) -> bool:
    """Whether they have not all read the same, or it can't be told of one."""
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


# Rules about rows that were set aside and are fed again.


@pipeline_rule(
    "HW-REPLAYED-ROWS-DUPLICATED",
    "The query of `{sink}` begins anew and reads rows of `{source}` that were fed again before: those that "
    "can be read at their first place by now come twice.",
    "Where that matters, drop repeats with a table (`distinct:`), or start the whole pipeline anew with "
    "another run folder (`folder:`) and other output folders.",
    Severity.WARNING,
    example="""
        sources:
          orders:   # 3 rows were fed again by `headwater quarantine replay`
            {connector: files, path: orders/, format: json, schema: {id: int}, bad_rows: quarantine}
        sinks:
          added_later: {reads: orders, connector: console}
    """,
    lasting=False,
)
def fed_before(situation: Situation) -> Iterator[Match]:
    """A new query begins with all rows of its source, and with those that were fed again before it: a row
    that can be read at its first place by now comes to it twice."""
    new = set(situation.facts) - set(situation.stored) - set(situation.reached)
    for sink in (each for each in situation.spec.sinks if each.name in new):
        inputs = situation.facts[sink.name].inputs
        for source in [each.name for each in situation.spec.readable if replay_stream(each.name) in inputs]:
            yield Match.at(sink.position, sink=sink.name, source=source)
