"""Rules about state that never ends."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.bounds import Bound, Extent, bounds_of, growing_values, is_time
from headwater.checks.guarantees import call_of
from headwater.checks.joins import sides_in_words, waits_for_ever
from headwater.checks.pitfalls import why_not_apart
from headwater.checks.rules import Match, Query, Severity, rule
from headwater.plan.operators import Aggregate, Kind, Operator

_EVERY_VALUE = ("CollectList", "ListAgg")
# Beside lists what counts how often each value came. A set is left out: who asks for one has few as a rule.
_ENDLESS = (*_EVERY_VALUE, "Median", "Mode", "Percentile", "PercentileCont", "PercentileDisc")


def open_ended(query: Query, *kinds: Kind) -> Iterator[tuple[Operator, Bound]]:
    """The operators of some kinds whose state has no end. A query that Spark refuses has other troubles."""
    for bound in () if query.facts.refusal else bounds_of(query.facts):
        operator = query.facts.operators[bound.operator]
        if operator.kind in kinds and bound.extent in (Extent.UNBOUNDED, Extent.BY_KEYS):
            yield operator, bound


@rule(
    "HW-WINDOWS-KEPT",
    "The state of {operator} in the query of `{sink}` only grows: {why}.",
    "Add {missing} (`watermark:` in the file, `withWatermark` in PySpark).",
    Severity.WARNING,
    example="""
        sources:
          clicks: {connector: files, path: clicks/, format: json, schema: {page: string, at: timestamp}}
        tables:
          per_hour: SELECT window(at, '1 hour') AS hour, count(*) AS n FROM clicks GROUP BY 1
        sinks:
          per_hour: {reads: per_hour, connector: console, mode: update}
    """,
)
def windows_kept(query: Query) -> Iterator[Match]:
    """New windows come as long as time goes on. Without a watermark Spark can't know that one is over, and
    keeps all of them: the state grows until memory or disk is full."""
    for operator, bound in open_ended(query, Kind.AGGREGATION, Kind.DISTINCT):
        if query.facts.mode != "complete" and bound.missing and not _marked(query, bound):
            yield query.match(operator, operator=operator.name, why=bound.why, missing=bound.missing)


def _marked(query: Query, bound: Bound) -> bool:
    """Whether a watermark comes before: why it can't clear the keys is told by the rules about watermarks."""
    below = (query.facts.operators[each] for each in query.facts.below(bound.operator))
    return any(each.kind is Kind.WATERMARK for each in below)


@rule(
    "HW-COMPLETE-KEEPS-ALL",
    "The state of {operator} in the query of `{sink}` only grows: {why}.",
    "Use {missing}.",
    Severity.WARNING,
    example="""
        tables:
          per_hour: SELECT window(at, '1 hour') AS hour, count(*) AS n FROM clicks GROUP BY 1
        sinks:
          per_hour: {reads: per_hour, connector: console, mode: complete}
    """,
)
def complete_keeps_all(query: Query) -> Iterator[Match]:
    """Complete mode writes the whole result each time, so it keeps all of it, whatever the watermark says.
    With windows among the keys the result itself grows for ever, and every batch writes all of it."""
    for operator, bound in open_ended(query, Kind.AGGREGATION, Kind.DISTINCT):
        if query.facts.mode == "complete" and any(is_time(key) for key in operator.keys):
            yield query.match(
                query.at("mode"),
                table=operator.table,
                operator=operator.name,
                why=bound.why,
                missing=bound.missing,
            )


@rule(
    "HW-REPEATS-REMEMBERED",
    "The state of `{operator}` in the query of `{sink}` only grows: {why}.",
    "{hint}",
    Severity.WARNING,
    example="""
        sources:
          payments: {connector: files, path: payments/, format: json, schema: {id: string, at: timestamp}}
        tables:
          once: {reads: payments, distinct: [id]}
    """,
)
def repeats_remembered(query: Query) -> Iterator[Match]:
    """To drop every repeat, however late, all keys that ever came have to be remembered. Keys such as ids
    never end; most repeats come soon after the first row, and a watermark says how soon."""
    for operator, bound in open_ended(query, Kind.DEDUP):
        if why_not_apart(query.facts, bound.operator):
            continue
        times = [each.column for each in operator.event_times]
        yield query.match(
            operator, operator=operator.name, why=bound.why, hint=_drop_repeats(times[0] if times else "")
        )


def _drop_repeats(column: str) -> str:
    within = "write `within: watermark` (`dropDuplicatesWithinWatermark` in PySpark)"
    if column:
        return f"If repeats come within the watermark's delay, {within}, or add `{column}` to the columns."
    return f"If repeats come soon, declare a watermark on the event time and {within}."


@rule(
    "HW-JOIN-KEEPS-ALL",
    "The state of the join of {left} with {right} in the query of `{sink}` only grows: {why}.",
    "Add {missing}.",
    Severity.WARNING,
    example="""
        tables:
          clicked: SELECT i.ad, shown, clicked FROM impressions i JOIN clicks c ON i.ad = c.ad
    """,
)
def join_keeps_all(query: Query) -> Iterator[Match]:
    """A row of one stream waits for partners in the other. Without watermarks and a time range Spark can't
    know that none will come, and keeps every row of both."""
    for operator, bound in open_ended(query, Kind.JOIN):
        join = operator.join
        # An outer join that needs the end which is missing is an error of its own.
        if join is not None and not any(waits_for_ever(operator)):
            left, right = sides_in_words(join)
            yield query.match(operator, left=left, right=right, why=bound.why, missing=bound.missing)


@rule(
    "HW-VALUES-GROW",
    "{aggregates} in the query of `{sink}` keeps every {values} that ever came, since no key is ever over.",
    "Group by a window of a column with a watermark too, or {instead}.",
    Severity.WARNING,
    example="""
        tables:
          pages: SELECT user, collect_list(page) AS pages FROM clicks GROUP BY user
    """,
)
def values_grow(query: Query) -> Iterator[Match]:
    """`collect_list` and its like keep every value of a key; `median`, `mode` and `percentile` every distinct
    one, with how often it came. Where a key is never over, what is kept for it has no end: it is read and
    written whole with every batch that touches it."""
    for bound in () if query.facts.refusal else bounds_of(query.facts):
        operator = query.facts.operators[bound.operator]
        endless = not bound.kept and operator.kind is Kind.AGGREGATION
        grown = [each for each in growing_values(operator) if each.function in _ENDLESS]
        if endless and grown:
            listed = any(each.function in _EVERY_VALUE for each in grown)
            yield query.match(
                operator,
                aggregates=" and ".join(f"`{call_of(each)}`" for each in grown),
                values="value" if listed else "distinct value",
                instead=" or ".join(dict.fromkeys(map(_instead, grown))),
            )


def _instead(aggregate: Aggregate) -> str:
    """What keeps less and may do as well."""
    if aggregate.function in _EVERY_VALUE:
        return "keep a count, a sum or a maximum instead"
    if aggregate.function == "Mode":
        return "group by the value too and count its rows"
    return "write `percentile_approx(x, 0.5)`, which keeps a summary of a fixed size"


# A rule about the number of pieces that state is divided into.

KEY = "spark.sql.shuffle.partitions"
FEW = 16
FOR_EACH_CORE = 8


@rule(
    "HW-STATE-PARTITIONS",
    "The state of the sink `{sink}` is divided into {partitions} partitions for {cores} core(s): every batch "
    "runs {partitions} tasks for each step that keeps state, most of them for a few rows or none (200 on two "
    "cores make a batch of 1,000 rows take ten seconds instead of a fifth of one).",
    "Set `spark.sql.shuffle.partitions` to {cores}, or up to twice that, before the first start; it can't be "
    "changed later. A declared pipeline that leaves it out gets one partition for each core.",
    Severity.ADVICE,
    example="""
        spark: {spark.sql.shuffle.partitions: 200}   # on a machine with 4 cores
        tables:
          per_page: SELECT page, count(*) AS n FROM clicks GROUP BY page
    """,
    lasting=False,
)
def state_partitions(query: Query) -> Iterator[Match]:
    """Every batch runs a task for each partition of state and writes its files, also for partitions that
    get no row. Spark's default of 200 is made for large batch jobs; the number freezes at the first start."""
    facts = query.facts
    written = facts.settings.get(KEY, "")
    partitions = int(written) if written.isdigit() else 0
    # What froze at the first start can only be lived with.
    if facts.stateful and not query.begun and partitions > max(FEW, FOR_EACH_CORE * facts.cores):
        yield query.match(
            query.setting_at(KEY, written) or query.at(), partitions=partitions, cores=facts.cores
        )
