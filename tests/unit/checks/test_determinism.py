"""Rules about what a batch gives when it runs again."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.checks import Finding, Query, Reached, Severity, Situation, examine, together
from headwater.checks.determinism import (
    nondeterministic_event_time,
    nondeterministic_query,
    order_dependent,
    source_not_replayable,
    source_not_replayable_resume,
    source_not_replayable_shared,
)
from headwater.plan import Graph, QueryFacts, SourceFacts
from headwater.plan.operators import Aggregate, Expression, PythonFunction
from headwater.spec import PipelineSpec
from tests.unit.checks.facts import aggregation, facts
from tests.unit.specs import spec_of

FILES: dict[str, Any] = {"connector": "files", "delivery": "IDEMPOTENT"}


def changing(*expressions: Expression, **overrides: Any) -> QueryFacts:
    return facts(non_deterministic=expressions, **{**FILES, **overrides})


def found(query: QueryFacts) -> list[Finding]:
    rules = (nondeterministic_query, nondeterministic_event_time, order_dependent)
    return [finding for rule in rules for finding in rule.about(Query(query))]


def codes(query: QueryFacts) -> list[tuple[str, str]]:
    return [(each.problem.code, each.severity.value) for each in found(query)]


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        ("uuid()", "sha2"),
        ("rand(42)", "xxhash64"),
        ("now()", "current_timestamp()"),
        ("SPARK_PARTITION_ID()", "xxhash64"),
        ("java_method('a', 'b')", "suppress"),
        ("pick(id)", "asNondeterministic"),
    ],
)
def test_what_changes_before_files_is_warned_of(sql: str, instead: str) -> None:
    (finding,) = found(changing(Expression(sql, table="t")))
    assert (finding.problem.code, finding.severity.value) == ("HW-NONDETERMINISTIC", "warning")
    assert (finding.sink, finding.table) == ("out", "t")
    assert instead in finding.problem.hint


def test_what_reaches_state_is_told_as_such() -> None:
    assert codes(changing(Expression("rand()", stateful_input=True))) == [
        ("HW-NONDETERMINISTIC-STATE", "warning")
    ]


@pytest.mark.parametrize(
    ("overrides", "warned"),
    [
        ({"connector": "foreach_batch", "delivery": "USER"}, True),
        ({"connector": "foreach", "delivery": "USER"}, True),
        ({"connector": "kafka", "delivery": "DUPLICATES"}, True),
        ({"connector": "strange", "delivery": ""}, True),
        ({"connector": "", "delivery": ""}, False),
        ({"connector": "console", "delivery": "DUPLICATES"}, False),
        ({"connector": "memory"}, False),
        ({"connector": "noop"}, False),
        ({"sources": (SourceFacts("rows", "socket", replayable=False),)}, False),
    ],
)
def test_what_reaches_state_matters_for_every_sink_that_keeps_rows(
    overrides: dict[str, Any], warned: bool
) -> None:
    expected = [("HW-NONDETERMINISTIC-STATE", "warning")] if warned else []
    assert codes(changing(Expression("rand()", stateful_input=True), **overrides)) == expected


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("rand(-3692687106105931207L)", "`rand()`"),
        ("randn(8624680752048833641L)", "`randn()`"),
        ("uniform(1, 5, 910684245582389655L)", "`uniform(1, 5)`"),
        ("randstr(5, 6734758905795966304L)", "`randstr(5)`"),
        ("rand(42)", "`rand(42)`"),
        ("rand(3L)", "`rand(3L)`"),
    ],
)
def test_a_seed_that_nobody_wrote_is_not_shown(sql: str, shown: str) -> None:
    (finding,) = found(changing(Expression(sql)))
    assert finding.problem.params["what"] == shown


@pytest.mark.parametrize(
    "overrides",
    [
        {"connector": "console", "delivery": "DUPLICATES"},
        {"connector": "foreach_batch", "delivery": "USER"},
        {"connector": "memory"},
        {"connector": "noop"},
        {"connector": "strange", "delivery": ""},
        {"trigger": "continuous 1 second"},
        {"sources": (SourceFacts("rows", "socket", replayable=False),)},
    ],
)
def test_a_sink_that_is_not_exactly_once_anyway_is_not_warned_for(overrides: dict[str, Any]) -> None:
    assert codes(changing(Expression("rand()"), **overrides)) == []


def test_a_sink_of_a_plain_program_counts_by_what_is_known_of_it() -> None:
    assert codes(changing(Expression("rand()"), connector="delta")) == [("HW-NONDETERMINISTIC", "warning")]


@pytest.mark.parametrize(
    ("sql", "severity"),
    [
        ("rand()", "error"),
        ("SPARK_PARTITION_ID()", "error"),
        ("now()", "warning"),
        ("parse(text)", "warning"),
    ],
)
def test_event_time_that_changes(sql: str, severity: str) -> None:
    query = changing(
        Expression(sql, stateful_input=True, event_time=True), connector="console", delivery="DUPLICATES"
    )
    (finding,) = found(query)
    assert (finding.problem.code, finding.severity.value) == ("HW-NONDETERMINISTIC-EVENT-TIME", severity)
    assert finding.suppressible
    # It is told once, before an exactly-once sink, too.
    assert len(found(changing(Expression(sql, event_time=True)))) == 1


def test_the_name_of_a_file_is_no_chance() -> None:
    assert codes(changing(Expression("input_file_name()", event_time=True))) == []


def test_a_marked_function_without_an_expression() -> None:
    functions = (PythonFunction("pick", "row", deterministic=False), PythonFunction("sound", "row"))
    (finding,) = found(changing(python_functions=functions))
    assert finding.problem.params["what"] == "`pick(…)`"


@pytest.mark.parametrize(
    ("sql", "function", "instead"),
    [
        ("first(x) AS x", "First", "min_by(x, at)"),
        ("last(x)", "last", "max_by(x, at)"),
        ("listagg(x, NULL)", "listagg", "WITHIN GROUP"),
    ],
)
def test_aggregates_over_an_order_get_advice(sql: str, function: str, instead: str) -> None:
    (finding,) = found(facts(aggregation(aggregates=(Aggregate(sql, function),)), **FILES))
    assert (finding.problem.code, finding.severity.value) == ("HW-ORDER-DEPENDENT", "note")
    assert instead in finding.problem.hint


@pytest.mark.parametrize("function", ["any_value", "collect_list", "max_by", "count", "sum"])
def test_aggregates_that_say_it_themselves_or_do_not_depend_on_it(function: str) -> None:
    step = aggregation(aggregates=(Aggregate(f"{function}(x)", function),))
    assert codes(facts(step, **FILES)) == []


PIPELINE = """
    name: lines
    sources:
      lines: {connector: socket, host: localhost, port: 9999}
      ticks: {connector: rate}
    tables:
      words: SELECT explode(split(value, ' ')) AS word FROM lines
      other: SELECT value FROM ticks
    sinks:
      one: {reads: Words, connector: console}
      two: {reads: %s, connector: %s}
"""


def situation(reads: str, connector: str = "console", **keys: Any) -> Situation:
    spec: PipelineSpec = spec_of(PIPELINE % (reads, connector))
    return Situation(spec, Graph.of(spec), **{"environ": {}, **keys})


@pytest.mark.parametrize("reads", ["other", "ticks", "words"])
def test_a_source_that_comes_once_is_named(reads: str) -> None:
    (found,) = source_not_replayable.findings(situation(reads))
    assert (found.problem.code, found.severity) == ("HW-SOURCE-NOT-REPLAYABLE", Severity.WARNING)
    assert found.problem.params == {"name": "lines", "connector": "socket"}
    assert found.problem.place
    assert found.problem.place.line == 3


@pytest.mark.parametrize(("reads", "shared"), [("LINES", True), ("words", True), ("ticks", False)])
def test_two_sinks_on_a_source_that_comes_once(reads: str, shared: bool) -> None:
    found = list(source_not_replayable_shared.findings(situation(reads)))
    assert [each.problem.params["sinks"] for each in found] == (["`one`, `two`"] if shared else [])
    assert all(each.severity is Severity.ERROR for each in found)


@pytest.mark.feature("B9.2", part="two grouped sinks of a source that is not replayable")
def test_the_sinks_of_a_group_share_a_source_that_comes_once() -> None:
    text = (PIPELINE % ("words", "console")).replace("console}", "console, group: both}")
    spec = spec_of(text)
    assert list(source_not_replayable_shared.findings(Situation(spec, Graph.of(spec)))) == []
    spec = spec_of(text + "      three: {reads: lines, connector: noop}\n")
    (found,) = source_not_replayable_shared.findings(Situation(spec, Graph.of(spec)))
    assert found.problem.params["sinks"] == "`both`, `three`"
    assert "group: NAME" in found.problem.hint


def test_the_refusal_says_all_that_the_warning_says() -> None:
    codes = [each.problem.code for each in together(examine(situation("lines")))]
    assert codes == ["HW-SOURCE-NOT-REPLAYABLE-SHARED", "HW-DECLARATION-UNUSED", "HW-DECLARATION-UNUSED"]


@pytest.mark.parametrize(
    ("offsets", "connector", "sinks"),
    [
        ((4,), "console", ["one"]),
        (({"logOffset": 3}, 0), "console", ["one"]),
        ((-1,), "console", []),
        ((None,), "console", []),
        ((), "console", []),
    ],
)
def test_a_checkpoint_that_has_read_lines(offsets: tuple[Any, ...], connector: str, sinks: list[str]) -> None:
    reached = {"one": Reached("/run/one", offsets), "two": Reached("/run/two", (7,))}
    found = list(source_not_replayable_resume.findings(situation("ticks", connector, reached=reached)))
    assert [each.problem.params["sink"] for each in found] == sinks
    assert [each.problem.params["checkpoint"] for each in found] == [f"/run/{sink}" for sink in sinks]


def test_a_sink_that_lives_in_one_process_begins_anew_anyway() -> None:
    reached = {"two": Reached("/run/two", (7,))}
    rule = source_not_replayable_resume
    assert list(rule.findings(situation("lines", "memory", reached=reached))) == []
    assert len(list(rule.findings(situation("lines", "noop", reached=reached)))) == 1
