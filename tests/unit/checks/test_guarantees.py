"""The weakest of source, query and sink, each with its reason."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from headwater.checks.guarantees import (
    Guarantee,
    GuaranteeReason,
    Level,
    Part,
    after_suspension,
    guarantee_of,
    guarantee_offline,
    weakest,
)
from headwater.plan import Graph, QueryFacts, SourceFacts
from headwater.plan.operators import Aggregate, Expression, Kind, Operator, PythonFunction
from tests.unit.checks.facts import aggregation, facts
from tests.unit.specs import spec_of

FILES = {"connector": "files", "delivery": "IDEMPOTENT"}


def query(*operators: Operator, **overrides: Any) -> QueryFacts:
    """A query over files into files."""
    return facts(*operators, **{**FILES, **overrides})


def lowering(told: Guarantee) -> list[tuple[str, str]]:
    return [(each.part.value, each.level.value) for each in told.lowering]


@pytest.mark.feature("D5.2", part="the delivery guarantee of each sink of a group")
@pytest.mark.parametrize(
    ("connector", "delivery", "level", "why"),
    [
        (
            "files",
            "IDEMPOTENT",
            "exactly-once",
            "files replaces the directory of a retried batch of group `g`",
        ),
        ("sqlite", "IDEMPOTENT", "exactly-once", "sqlite is idempotent: a retried batch changes nothing"),
        ("kafka", "DUPLICATES", "at-least-once", "kafka writes a retried batch again"),
        ("console", "DUPLICATES", "at-least-once", "console writes a retried batch again"),
    ],
)
def test_each_sink_of_a_group_has_its_own_guarantee(
    connector: str, delivery: str, level: str, why: str
) -> None:
    told = guarantee_of(query(connector=connector, delivery=delivery, group="g"))
    assert (told.level.value, told.reasons[-1].why) == (level, why)


def test_a_query_has_the_weakest_guarantee_of_its_sinks() -> None:
    once, again = query(group="g"), query(connector="kafka", delivery="DUPLICATES", group="g")
    assert weakest([once]) is Level.EXACTLY_ONCE
    assert weakest([once, again]) is Level.AT_LEAST_ONCE


def test_files_to_files_is_exactly_once_and_says_why() -> None:
    told = guarantee_of(query())
    assert told.level is Level.EXACTLY_ONCE
    assert [each.part for each in told.reasons] == [Part.SOURCE, Part.QUERY, Part.SINK]
    assert all(not each.raised_by for each in told.reasons)
    assert told.lines() == [
        "exactly-once",
        "  source: `rows` (files) is replayable",
        "  query: it is deterministic",
        "  sink: files records each batch in its log: readers of the log see each row once",
    ]


@pytest.mark.parametrize(
    ("connector", "delivery", "level"),
    [
        ("files", "IDEMPOTENT", "exactly-once"),
        ("memory", "IDEMPOTENT", "exactly-once"),
        ("noop", "IDEMPOTENT", "exactly-once"),
        ("delta", "IDEMPOTENT", "exactly-once"),
        ("console", "DUPLICATES", "at-least-once"),
        ("kafka", "DUPLICATES", "at-least-once"),
        ("kafka", "MARKED", "at-least-once"),
        ("kafka", "UNCONFIRMED", "unknown"),
        ("foreach", "USER", "at-least-once"),
        ("foreach_batch", "USER", "at-least-once"),
        ("strange", "", "unknown"),
    ],
)
def test_what_a_sink_gives(connector: str, delivery: str, level: str) -> None:
    told = guarantee_of(query(connector=connector, delivery=delivery))
    assert told.level == level
    assert lowering(told) == ([] if level == "exactly-once" else [("sink", level)])
    assert all(each.raised_by for each in told.lowering)


def test_the_words_tell_kinds_of_sinks_apart() -> None:
    words = {guarantee_of(query(connector=each)).reasons[-1].why for each in ("files", "memory", "noop")}
    assert len(words) == 3


@pytest.mark.parametrize(
    ("source", "level"),
    [
        (SourceFacts("a", "files"), "exactly-once"),
        (SourceFacts("a", "rate"), "exactly-once"),
        (SourceFacts("a", "socket", replayable=False), "at-most-once"),
        (SourceFacts("a", "python", own_code=True), "unknown"),
        (SourceFacts("a", "kinesis", known=False), "unknown"),
        (SourceFacts("a", "files", streaming=False), "exactly-once"),
        (SourceFacts("a", "files", streaming=False, options={"refresh": "never"}), "exactly-once"),
        (SourceFacts("a", "files", streaming=False, options={"refresh": "every batch"}), "at-least-once"),
        # Static rows need not be read again from a place in a stream.
        (SourceFacts("a", "x", streaming=False, replayable=False), "exactly-once"),
    ],
)
def test_what_a_source_gives(source: SourceFacts, level: str) -> None:
    told = guarantee_of(query(sources=(SourceFacts("rows", "files"), source)))
    assert told.level == level
    assert lowering(told) == ([] if level == "exactly-once" else [("source", level)])


@pytest.mark.parametrize(
    "sql",
    [
        "rand()",
        "rand(42)",
        "uuid()",
        "shuffle(a)",
        "now()",
        "current_time(6)",
        "SPARK_PARTITION_ID()",
        "f(id)",
    ],
)
def test_an_expression_that_changes_is_at_least_once(sql: str) -> None:
    told = guarantee_of(query(non_deterministic=(Expression(sql),)))
    assert (told.level, lowering(told)) == (Level.AT_LEAST_ONCE, [("query", "at-least-once")])


@pytest.mark.parametrize("sql", ["input_file_name()", "input_file_block_start()"])
def test_the_name_of_a_file_stays_what_it_was(sql: str) -> None:
    assert guarantee_of(query(non_deterministic=(Expression(sql),))).level is Level.EXACTLY_ONCE


def test_a_marked_function_counts_once_wherever_it_is_named() -> None:
    marked = PythonFunction("pick", "row", deterministic=False)
    told = guarantee_of(query(python_functions=(marked,)))
    assert lowering(told) == [("query", "at-least-once")]
    both = guarantee_of(query(python_functions=(marked,), non_deterministic=(Expression("pick(id)"),)))
    assert lowering(both) == [("query", "at-least-once")]
    sound = PythonFunction("pick", "row")
    assert guarantee_of(query(python_functions=(sound,))).level is Level.EXACTLY_ONCE


@pytest.mark.parametrize(
    ("function", "sql", "level"),
    [
        ("first", "first(x)", "at-least-once"),
        ("Last", "last(x)", "at-least-once"),
        ("any_value", "any_value(x)", "at-least-once"),
        ("AnyValue", "any_value(x)", "at-least-once"),
        ("listagg", "listagg(x, ',')", "at-least-once"),
        ("ListAgg", "listagg(x) WITHIN GROUP (ORDER BY x ASC)", "exactly-once"),
        # Only the order inside of the list may differ, which a sort puts right.
        ("collect_list", "collect_list(x)", "exactly-once"),
        ("max_by", "max_by(x, at)", "exactly-once"),
        ("count", "count(1)", "exactly-once"),
    ],
)
def test_aggregates_that_depend_on_the_order_of_rows(function: str, sql: str, level: str) -> None:
    step = aggregation(aggregates=(Aggregate(sql, function),))
    assert guarantee_of(query(step)).level == level


def test_first_of_static_rows_does_not_matter() -> None:
    step = aggregation(aggregates=(Aggregate("first(x)", "first"),), streams=())
    assert guarantee_of(query(step, sources=(SourceFacts("rows", "files"),))).level is Level.EXACTLY_ONCE


def test_a_limit_takes_what_comes_first_unless_it_is_sorted() -> None:
    limit = Operator(Kind.LIMIT, "LIMIT", streams=("rows",))
    assert guarantee_of(query(limit)).level is Level.AT_LEAST_ONCE
    sort = Operator(Kind.SORT, "ORDER BY", streams=("rows",))
    over = Operator(Kind.LIMIT, "LIMIT", inputs=(0,), streams=("rows",))
    assert guarantee_of(query(sort, over)).level is Level.EXACTLY_ONCE


@pytest.mark.parametrize(
    ("trigger", "level"),
    [
        ("default", "exactly-once"),
        ("every 10 seconds", "exactly-once"),
        ("available now", "exactly-once"),
        ("continuous 1 second", "at-least-once"),
        ("real time 5 minutes", "at-least-once"),
    ],
)
def test_what_a_trigger_takes_away(trigger: str, level: str) -> None:
    told = guarantee_of(query(trigger=trigger))
    assert told.level == level
    assert [each.part for each in told.reasons].count(Part.QUERY) == 1


@pytest.mark.parametrize(
    ("levels", "weakest"),
    [
        ("exact exact exact", "exactly-once"),
        ("exact least exact", "at-least-once"),
        ("most least exact", "at-most-once"),
        ("most exact unknown", "at-most-once"),
        ("unknown exact least", "unknown"),
        ("exact least unknown", "unknown"),
        # A query repeats rows or not; it loses none.
        ("exact unknown least", "at-least-once"),
        ("exact unknown exact", "unknown"),
    ],
)
def test_the_weakest_part_decides(levels: str, weakest: str) -> None:
    named = {
        "exact": Level.EXACTLY_ONCE,
        "least": Level.AT_LEAST_ONCE,
        "most": Level.AT_MOST_ONCE,
        "unknown": Level.UNKNOWN,
    }
    reasons = [
        GuaranteeReason(part, named[each], "so") for part, each in zip(Part, levels.split(), strict=True)
    ]
    assert Guarantee.of(reasons).level == weakest


def test_as_json_and_for_people() -> None:
    told = guarantee_of(query(connector="console", delivery="DUPLICATES"))
    assert told.to_json()["level"] == "at-least-once"
    assert [each["part"] for each in told.to_json()["reasons"]] == ["source", "query", "sink"]
    assert told.to_json()["reasons"][0]["raised_by"] is None
    assert told.lines() == [
        "at-least-once",
        "  sink: console writes a retried batch again",
        "    to improve it: use an idempotent sink, such as `files`",
    ]


SOURCES = {
    "files": "{connector: files, path: in/, format: text}",
    "socket": "{connector: socket, host: localhost, port: 99}",
    "python": '{connector: python, class: "feeds.py:Feed", schema: {value: string}}',
}
STATICS = {
    "none": None,
    "kept": "{connector: files, path: st/, format: text, static: true}",
    "fresh": "{connector: files, path: st/, format: text, static: true, refresh: every batch}",
}
SINKS = {
    "files": ("{connector: files, path: out/, format: text}", "IDEMPOTENT"),
    "console": ("{connector: console}", "DUPLICATES"),
    "foreach_batch": ('{connector: foreach_batch, function: "out.py:write"}', "USER"),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with all that the pipelines name."""
    for folder in ("in", "st"):
        (tmp_path / folder).mkdir()
    (tmp_path / "feeds.py").write_text("class Feed: ...\n", encoding="utf-8")
    (tmp_path / "out.py").write_text("def write(batch, batch_id): ...\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "static", "sink", "sql"),
    list(
        itertools.product(SOURCES, STATICS, SINKS, ["SELECT value FROM rows", "SELECT value:a.b FROM rows"])
    ),
)
def test_offline_never_contradicts_the_full_guarantee(
    source: str, static: str, sink: str, sql: str, project: Path
) -> None:
    text, delivery = SINKS[sink]
    sources = f"      rows: {SOURCES[source]}\n"
    joined = STATICS[static] is not None
    sources += f"      more: {STATICS[static]}\n" if joined else ""
    sql += " JOIN more" if joined and ":" not in sql else ""
    spec = spec_of(
        f"    name: p\n    sources:\n{sources}    tables:\n      t: {sql}\n"
        f"    sinks:\n      out: {{reads: t, {text[1:]}\n",
        project,
    )
    graph = Graph.of(spec)
    offline = guarantee_offline(spec, graph, spec.sinks[0])
    read = [SourceFacts("rows", source, replayable=source != "socket", own_code=source == "python")]
    if joined:
        refresh = {"refresh": "every batch" if static == "fresh" else "never"}
        read.append(SourceFacts("more", "files", streaming=False, options=refresh))
    for expressions in [(), (Expression("rand()"),)]:
        full = guarantee_of(
            query(sources=tuple(read), connector=sink, delivery=delivery, non_deterministic=expressions)
        )
        assert offline.level in (Level.UNKNOWN, full.level)
    assert offline.level is not Level.EXACTLY_ONCE


@pytest.mark.parametrize(
    ("reads", "sink", "level"),
    [
        ("rows", "files", "unknown"),
        ("ROWS", "console", "at-least-once"),
        ("lines", "files", "at-most-once"),
        ("nothing", "console", "unknown"),
        # Which of the sources it reads, can't be told; and one of them loses rows.
        ("strange", "console", "unknown"),
    ],
)
def test_what_is_known_offline(reads: str, sink: str, level: str, project: Path) -> None:
    spec = spec_of(
        f"""
        name: p
        sources:
          rows: {SOURCES["files"]}
          lines: {SOURCES["socket"]}
        tables:
          strange: "SELECT value:a.b FROM ticks"
        sinks:
          out: {{reads: {reads}, {SINKS[sink][0][1:]}
        """,
        project,
    )
    assert guarantee_offline(spec, Graph.of(spec), spec.sinks[0]).level == level


TWICE = "the batch in progress can be written twice"


@pytest.mark.feature("F5", part="what a suspension can do is said per sink")
@pytest.mark.parametrize(
    ("connector", "delivery", "says"),
    [
        (
            "files",
            "IDEMPOTENT",
            "readers of the log see each row once; the directory can contain files that the log does not list",
        ),
        ("memory", "IDEMPOTENT", "each process has its own rows"),
        (
            "postgres",
            "IDEMPOTENT",
            "the database rejects the batches of the suspended process: each row is written once",
        ),
        ("noop", "IDEMPOTENT", f"{TWICE}, which changes nothing if the sink identifies it by its ID"),
        ("foreign", "IDEMPOTENT", f"{TWICE}, which changes nothing if the sink identifies it by its ID"),
        ("kafka", "DUPLICATES", f"{TWICE}, also after later batches"),
        ("kafka", "UNCONFIRMED", f"{TWICE}, also after later batches"),
        ("kafka", "MARKED", f"{TWICE}, also after later batches; its headers identify the duplicates"),
        (
            "foreach_batch",
            "USER",
            "your code can receive the batch in progress twice, also at the same time and after later batches: "
            "store its ID in the same transaction as its rows",
        ),
        ("foreign", "", "unknown: Headwater does not know how foreign handles a retried batch"),
        ("", "", "unknown: Headwater does not know how the sink handles a retried batch"),
    ],
)
def test_what_a_sink_contains_after_a_suspension(connector: str, delivery: str, says: str) -> None:
    assert after_suspension(query(connector=connector, delivery=delivery)) == says
