"""What is wrong with the expectations of tables: conditions, and rows that can't be set aside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.checkpoint import Read
from headwater.checks.rules import Finding, Match, Severity, Situation, pipeline_rule
from headwater.connectors import source_side
from headwater.errors import Entry, Problem
from headwater.errors.catalogue.pipelines import EXPECTATION_COLUMN, EXPECTATION_SYNTAX
from headwater.errors.problems import shown_file
from headwater.plan import Graph, QueryFacts
from headwater.plan.graph import NotAQuery, parsed_query
from headwater.plan.predicates import column_problem, columns_of, condition_problem
from headwater.plan.quarantine import quarantine_of, replay_stream
from headwater.spec import Expectation, PipelineSpec, SourceSpec, TableSpec
from headwater.values import Never, Otherwise


def known_columns(spec: PipelineSpec, name: str, readers: frozenset[str] = frozenset()) -> list[str] | None:
    """The columns of a source or table; None where only Spark can tell, and in a circle."""
    if name.lower() in readers:
        return None
    readers |= {name.lower()}
    declared = {each.name.lower(): each for each in spec.readable}.get(name.lower())
    if isinstance(declared, SourceSpec):
        columns = columns_of(declared)
        return list(columns) if columns is not None else None
    if isinstance(declared, TableSpec) and declared.distinct:
        return known_columns(spec, declared.distinct.reads, readers)
    if isinstance(declared, TableSpec) and declared.sql:
        return _selected(spec, declared.sql, readers)
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
        inner = _all_of(spec, query, readers) if isinstance(each, exp.Star) else _named(each)
        if inner is None:
            return None
        found += inner
    return found


def _named(column: exp.Expression) -> list[str] | None:
    if isinstance(column, exp.Alias) or (isinstance(column, exp.Column) and not column.is_star):
        return [column.alias_or_name]
    return None


def _all_of(spec: PipelineSpec, query: exp.Select, readers: frozenset[str]) -> list[str] | None:
    """What `*` stands for where one table is read."""
    origin = query.args.get("from_") or query.args.get("from")
    if origin is None or query.args.get("joins") or not isinstance(origin.this, exp.Table):
        return None
    table = origin.this
    plain = isinstance(table.this, exp.Identifier) and not table.db and not table.args.get("pivots")
    star = next(each for each in query.expressions if isinstance(each, exp.Star))
    if not plain or any(star.args.values()):
        return None
    return known_columns(spec, table.name, readers)


@pipeline_rule(
    entries=[EXPECTATION_SYNTAX, EXPECTATION_COLUMN],
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


EXPECTATION_NOT_REPLAYABLE = Entry(
    "The table `{table}` sets rows aside, which takes a query of its own, but its source `{source}` "
    "({connector}) gives each row to one query only.",
    "Write `else: drop` or `else: fail` at the expectation `{expectation}`, or take a source that keeps its "
    "rows, such as files or Kafka.",
    code="HW-EXPECTATION-NOT-REPLAYABLE",
)
EXPECTATION_STATEFUL = Entry(
    "The table `{table}` sets rows aside, but its rows come out of {operator}, which keeps state: the query "
    "that sets them aside would keep it all a second time, and may see other results.",
    "Let a table below {operator} set rows aside, or write `else: drop` or `else: fail` at the expectation "
    "`{expectation}`.",
    code="HW-EXPECTATION-STATEFUL",
)
EXPECTATION_NOT_SETTLED = Entry(
    "The table `{table}` sets rows aside, but `{part}` may be another value in the query that sets them "
    "aside: a row could go on and be set aside as well, or neither.",
    "Judge by columns that a row brings along, or write `else: drop` at the expectation `{expectation}`.",
    code="HW-EXPECTATION-NOT-SETTLED",
)
EXPECTATION_STATIC = Entry(
    "The table `{table}` sets rows aside, but it reads no stream, and only a stream sets rows aside.",
    "Write `else: drop` or `else: fail` at the expectation `{expectation}`.",
    code="HW-EXPECTATION-STATIC",
)
EXPECTATION_REFRESHED = Entry(
    "The table `{table}` sets rows aside, and its static source `{source}` is refreshed ({refresh}): the "
    "query that sets rows aside may see other rows of it, so that a row could go on and be set aside as "
    "well, or neither.",
    "Write `refresh: never` at the source `{source}`, or judge by columns that don't come from it, or write "
    "`else: drop` at the expectation `{expectation}`.",
    code="HW-EXPECTATION-REFRESHED",
)


@pipeline_rule(
    entries={
        EXPECTATION_NOT_REPLAYABLE: Severity.ERROR,
        EXPECTATION_STATEFUL: Severity.ERROR,
        EXPECTATION_NOT_SETTLED: Severity.ERROR,
        EXPECTATION_STATIC: Severity.ERROR,
        EXPECTATION_REFRESHED: Severity.WARNING,
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
        each = next((each for each in table.expect if each.otherwise is Otherwise.QUARANTINE), None)
        facts = situation.facts.get(quarantine_of(table.name))
        for problem in _against(situation.spec, situation.graph, table, each, facts) if each else ():
            yield Finding(problem, table=table.name)
        for problem in _refreshed(situation.spec, situation.graph, table, each) if each else ():
            yield Finding(problem, Severity.WARNING, table=table.name)


def refused_quarantines(findings: Iterable[Finding]) -> set[str]:
    """The queries that would set rows aside, of the tables that can't."""
    refused = {entry for entry, how in expectation_sets_aside.entries.items() if how is Severity.ERROR}
    return {quarantine_of(each.table) for each in findings if each.problem.entry in refused}


def _against(
    spec: PipelineSpec, graph: Graph, table: TableSpec, each: Expectation, facts: QueryFacts | None
) -> Iterator[Problem]:
    named = {"table": table.name, "expectation": each.name}
    if graph.streaming(table.name) is False:
        yield EXPECTATION_STATIC.at(each.position, **named)
    for source in _streamed(spec, graph, table):
        side = source_side(source.connector)
        if not side.replayable:
            params = {"source": source.name, "connector": source.connector}
            yield EXPECTATION_NOT_REPLAYABLE.at(each.position, **named, **params)
    stateful = [operator.name for operator in facts.stateful] if facts else []
    if table.distinct and not stateful:
        within = "WithinWatermark" if table.distinct.within_watermark else ""
        stateful = [f"dropDuplicates{within}"]
    if stateful:
        yield EXPECTATION_STATEFUL.at(each.position, **named, operator=f"`{stateful[-1]}`")
    # What no declared thing brought is the quarantine's own note of the time.
    parts = chain(facts.non_deterministic, facts.clock_reads) if facts else ()
    part = next((part.sql for part in parts if part.table), None)
    if part:
        yield EXPECTATION_NOT_SETTLED.at(each.position, **named, part=part)


def _refreshed(spec: PipelineSpec, graph: Graph, table: TableSpec, each: Expectation) -> Iterator[Problem]:
    """Static sources of which two queries may see different rows."""
    needed = graph.upstream(table.name)
    for source in spec.sources:
        if source.name in needed and source.static and not isinstance(source.refresh, Never):
            params = {"table": table.name, "expectation": each.name, "source": source.name}
            yield EXPECTATION_REFRESHED.at(each.position, **params, refresh=str(source.refresh))


def _streamed(spec: PipelineSpec, graph: Graph, table: TableSpec) -> list[SourceSpec]:
    needed = graph.upstream(table.name)
    return [source for source in spec.sources if source.name in needed and not source.static]


# A rule about rows that are judged in another way while queries stand at different places.


@pipeline_rule(
    "HW-JUDGED-APART",
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
        readers = _begun(situation, declared.name)
        if not any(_changed(situation, sink, declared.name) for sink in readers):
            continue
        if _apart(situation, readers, declared.name):
            queries = ", ".join(f"`{sink}`" for sink in readers)
            yield Match.at(declared.position, name=declared.name, queries=queries, file=file)


def _begun(situation: Situation, name: str) -> list[str]:
    """The queries that read it and go on, and always its quarantine: one that was killed before its first
    batch has yet to read the rows that others have left out."""
    reading = [sink for sink, facts in situation.facts.items() if name in facts.verdicts]
    return [sink for sink in reading if sink in situation.reached or sink == quarantine_of(name)]


def _changed(situation: Situation, sink: str, name: str) -> bool:
    """Whether rows are judged by something else than at the last start, which older facts don't tell."""
    then = situation.stored.get(sink)
    before = then.verdicts.get(name) if then else None
    return before is not None and before != situation.facts[sink].verdicts[name]


def _apart(situation: Situation, readers: list[str], name: str) -> bool:
    """Whether they have not all read the same, or it can't be told of one."""
    below = situation.graph.upstream(name)
    inputs = {*below, *map(replay_stream, below)}
    told = [situation.reached[sink].committed() if sink in situation.reached else {} for sink in readers]
    read = [
        {each: found for each, found in reads.items() if each in inputs and found != Read()}
        for reads in told
        if reads is not None
    ]
    unknown = len(read) < len(told)
    return len(told) > 1 and (unknown or any(each != read[0] for each in read))


# Rules about rows that were set aside and are fed again.


@pipeline_rule(
    "HW-FED-BEFORE",
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
    sinks = {sink.name: sink for sink in situation.spec.sinks}
    for name, facts in situation.facts.items():
        if name in situation.stored or name in situation.reached:
            continue
        replayed = [each.name for each in situation.spec.readable if replay_stream(each.name) in facts.inputs]
        for source in replayed:
            yield Match.at(sinks[name].position, sink=name, source=source)
