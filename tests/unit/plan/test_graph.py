"""Who reads whom."""

from __future__ import annotations

import pytest

from headwater.errors import PipelineError
from headwater.errors.catalogue.pipelines import TABLE_CYCLE, TABLE_NOT_FOUND
from headwater.plan import Graph, Reference
from headwater.spec import FunctionRef, PipelineSpec, TableSpec
from headwater.values import Position
from tests.unit.specs import spec_of

SHOP = """
    name: shop
    sources:
      clicks: {connector: rate}
      ads: {connector: files, path: s3://bucket/ads, format: text, static: true}
    tables:
      revenue: SELECT * FROM priced
      Priced: SELECT * FROM clicks JOIN ADS USING (value)
      names: SELECT value FROM ads
    sinks:
      revenue: {reads: REVENUE, connector: noop}
"""


def with_function(spec: PipelineSpec, name: str, *parameters: str) -> PipelineSpec:
    table = TableSpec(name=name, function=FunctionRef("/project/a.py", name, parameters))
    return spec.model_copy(update={"tables": (*spec.tables, table)})


def test_names_are_read_whatever_their_case() -> None:
    graph = Graph.of(spec_of(SHOP))
    assert graph.problems == ()
    assert graph.reads == {
        "clicks": (),
        "ads": (),
        "revenue": ("Priced",),
        "Priced": ("clicks", "ads"),
        "names": ("ads",),
    }


def test_what_a_table_needs_comes_before_it() -> None:
    graph = Graph.of(spec_of(SHOP))
    order = graph.upstream("revenue")
    assert sorted(order) == ["Priced", "ads", "clicks", "revenue"]
    assert order.index("Priced") > max(order.index("clicks"), order.index("ads"))
    assert order[-1] == "revenue"
    assert graph.upstream("names", "ads") == ("ads", "names")


@pytest.mark.parametrize(
    ("name", "streams"), [("clicks", True), ("ads", False), ("names", False), ("revenue", True)]
)
def test_what_streams(name: str, streams: bool) -> None:
    assert Graph.of(spec_of(SHOP)).streaming(name) is streams


def test_what_is_not_known_offline() -> None:
    spec = spec_of(SHOP.replace("SELECT value FROM ads", "SELECT k:a.b FROM ads"))
    graph = Graph.of(with_function(spec, "later", "names", "clicks"))
    assert graph.reads["names"] is None
    assert graph.streaming("names") is None
    assert graph.streaming("later") is True
    assert Graph.of(with_function(spec, "later", "names", "ads")).streaming("later") is None


def test_the_parameters_of_a_function_are_tables_and_the_session_is_none() -> None:
    spec = with_function(spec_of(SHOP), "alerts", "priced", "spark", "Clicks")
    assert Graph.of(spec).reads["alerts"] == ("Priced", "clicks")


def test_an_unknown_table_is_told_at_its_place() -> None:
    spec = spec_of(SHOP.replace("FROM priced", "FROM prized").replace("REVENUE", "revenu"))
    table, sink = Graph.of(spec).problems
    assert (table.entry, table.params["name"], table.hint) == (
        TABLE_NOT_FOUND,
        "prized",
        "Did you mean `Priced`?",
    )
    assert table.place == Position("pipeline.yml", 6, 26)
    assert (sink.params["name"], sink.place) == ("revenu", Position("pipeline.yml", 10, 20))


def test_a_circle_is_told_once_by_its_shortest_way() -> None:
    text = SHOP.replace("FROM clicks JOIN ADS USING (value)", "FROM names JOIN revenue")
    (problem,) = Graph.of(spec_of(text)).problems
    assert (problem.entry, problem.params["cycle"]) == (TABLE_CYCLE, "revenue → Priced → revenue")


def test_what_reads_itself_or_nothing_known_is_not_sound() -> None:
    text = SHOP.replace("FROM clicks JOIN ADS USING (value)", "FROM names JOIN revenue")
    graph = Graph.of(spec_of(text))
    assert graph.faulty == {"revenue", "Priced"}
    assert [name for name in graph.reads if graph.sound(name)] == ["clicks", "ads", "names"]
    assert not graph.sound("nobody")
    assert graph.upstream("revenue") == ("ads", "names", "Priced", "revenue")
    assert graph.streaming("revenue") is None
    unknown = Graph.of(spec_of(SHOP.replace("FROM ads", "FROM adds")))
    assert unknown.faulty == {"names"}
    assert unknown.sound("REVENUE")


def test_what_is_declared_besides_is_known_and_not_sound() -> None:
    spec = spec_of(SHOP.replace("FROM priced", "FROM prized JOIN Broken"))
    graph = Graph.of(spec, besides=("broken", *spec.names))
    (problem,) = graph.problems
    assert problem.params["name"] == "prized"
    assert graph.faulty == {"revenue"}
    assert graph.reads["revenue"] == ()
    assert Graph.of(spec, besides=("prized",)).problems[0].params["name"] == "Broken"


def test_an_unknown_parameter_is_told_at_the_function() -> None:
    place = Position("/project/a.py", 3, 1)
    function = FunctionRef("/project/a.py", "alerts", ("nobody",), defined=place)
    spec = spec_of(SHOP)
    table = TableSpec(name="alerts", function=function, position=Position("pipeline.yml", 9))
    (problem,) = Graph.of(spec.model_copy(update={"tables": (*spec.tables, table)})).problems
    assert (problem.code, problem.params["name"], problem.place) == ("HW-TABLE-NOT-FOUND", "nobody", place)


def test_problems_of_other_readers_of_sql_are_collected() -> None:
    failure = PipelineError(TABLE_CYCLE.at(None, cycle="x"))

    def references(table: TableSpec) -> tuple[Reference, ...] | None:
        if table.name == "Priced":
            raise failure
        return (Reference("nobody"),)

    problems = Graph.of(spec_of(SHOP), references).problems
    assert [problem.code for problem in problems] == [
        "HW-TABLE-NOT-FOUND",
        "HW-TABLE-CYCLE",
        "HW-TABLE-NOT-FOUND",
    ]
