"""Pipelines declared in Python become the same specs as those in YAML."""

from __future__ import annotations

import inspect
import keyword
from pathlib import Path
from typing import Any

import pytest

import headwater
import headwater as hw
from headwater.connectors import Connector, all_connectors
from headwater.connectors.connector import ConnectorCall
from headwater.errors import PipelineError, Problem, UsageError
from headwater.loaders.keys import known_keys
from headwater.loaders.python_form import Declarations
from headwater.plan import Graph
from headwater.values import Position
from headwater.values.user_frames import caller
from tests.unit.specs import spec_of

HERE = Path(__file__)
YAML = """
    name: shop
    timezone: Europe/Berlin
    run_dir: runs
    watermark_policy: fastest
    spark_metrics: {csv: {directory: measured}}
    spark: {spark.ui.enabled: false}
    suppress: {HW-DECLARATION-UNUSED: they come later}
    functions: {mean: {java_class: org.example.Mean}}
    sources:
      clicks:
        connector: rate
        rows_per_second: 5
        options: {key: "${secret:KEY}"}
        watermark: {column: timestamp, delay: 120s}
      ads: {connector: files, path: "s3://a/b", format: csv, schema: {id: int, name: string}, static: true,
            refresh: every 10 minutes, cache: true}
    tables:
      few: SELECT * FROM clicks
      more:
        sql: SELECT * FROM few
        watermark: {column: at, delay: 1 hour}
        suppress: {HW-SOURCE-NOT-REPLAYABLE: " a try "}
      once: {reads: clicks, deduplicate: value, within: watermark}
    sinks:
      show: {reads: few, connector: console, mode: update, trigger: every 10 seconds, num_rows: 5}
      keep: {reads: more, connector: files, path: out, format: json, partition_by: [a, b],
             suppress: {HW-QUERY-METADATA-MISSING: moved}}
"""


def shop() -> Declarations:
    p = Declarations(
        "shop",
        timezone="Europe/Berlin",
        run_dir="runs",
        watermark_policy="fastest",
        spark_metrics={"csv": {"directory": "./measured"}},
        spark={"spark.ui.enabled": False},
        suppress={"HW-DECLARATION-UNUSED": "they come later"},
    )
    clicks = hw.rate(rows_per_second=5, options={"key": hw.secret("KEY")})
    p.source("clicks", clicks, watermark=("timestamp", "2 minutes"))
    ads = hw.files(path="s3://a/b", format="csv", schema="id int, name string")
    p.source("ads", ads, static=True, refresh="every 600 seconds", cache=True)
    p.table("few", sql="SELECT * FROM clicks")
    more = {"HW-SOURCE-NOT-REPLAYABLE": "a try"}
    p.table("more", sql="SELECT * FROM few", watermark=("at", "1 hour"), suppress=more)
    p.table("once", reads="clicks", deduplicate=["value"], within="watermark")
    p.function("mean", java_class="org.example.Mean")
    keep = hw.files(path="./out", format="json", partition_by=("a", "b"))
    p.sink("keep", keep, reads="more", suppress={"HW-QUERY-METADATA-MISSING": "moved"})
    p.sink("show", hw.console(num_rows=5), reads="few", mode="update", trigger="every 10s")
    return p


def problems(p: Declarations) -> list[Problem]:
    with pytest.raises(PipelineError) as error:
        p.spec()
    return list(error.value.problems)


def test_both_forms_give_one_spec() -> None:
    assert shop().spec() == spec_of(YAML, HERE.parent)


def test_a_function_is_a_table_that_reads_its_parameters() -> None:
    p = Declarations("p")

    @p.table
    def few(clicks: Any, spark: Any) -> Any: ...

    @p.table("more", watermark=("at", "1s"), suppress={"HW-DECLARATION-UNUSED": "why"})
    def other(few: Any) -> Any: ...

    p.table("last", python=few)
    p.source("clicks", hw.rate())
    p.sink("out", hw.noop(), reads="more")
    tables = {table.name: table for table in p.spec().tables}
    assert [table.function.parameters for table in tables.values() if table.function] == [
        ("clicks", "spark"),
        ("few",),
        ("clicks", "spark"),
    ]
    assert tables["few"].function is not None
    assert tables["few"].function.function is few
    assert tables["more"].watermark is not None
    assert [table.suppress for table in tables.values()] == [{}, {"HW-DECLARATION-UNUSED": "why"}, {}]


def test_a_problem_is_told_at_the_line_of_the_call() -> None:
    p = Declarations("p")
    p.source("clicks", hw.connector("rat"))
    p.sink("out", hw.noop(), reads="nothing", mode="apend")
    told = problems(p)
    assert [problem.code for problem in told] == ["HW-CONNECTOR-NOT-FOUND", "HW-VALUE-INVALID"]
    assert {problem.place.file for problem in told if problem.place} == {str(HERE)}
    lines = [problem.place.line for problem in told if problem.place]
    assert lines[1] == lines[0] + 1


def test_a_name_twice_in_one_file_is_refused_at_the_second() -> None:
    p = Declarations("p")
    p.source("clicks", hw.rate())
    with pytest.raises(PipelineError) as error:
        p.source("clicks", hw.rate())
    assert [problem.code for problem in error.value.problems] == ["HW-NAME-CONFLICT"]


def test_a_cell_that_runs_again_declares_again() -> None:
    p = Declarations("p")
    for rows in (1, 2):
        exec(
            compile(f"p.source('clicks', hw.rate(rows_per_second={rows}))", "<cell>", "exec"),
            {"p": p, "hw": hw},
        )
    p.sink("out", hw.noop(), reads="clicks")
    (clicks,) = p.spec().sources
    assert clicks.options.model_dump()["rows_per_second"] == 2


@pytest.mark.parametrize("call", [{"sql": "SELECT 1"}, {"python": print}])
def test_a_table_without_a_name(call: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        Declarations("p").table(**call)
    assert [problem.code for problem in error.value.problems] == ["HW-TABLE-NAME-MISSING"]


def star(*tables: Any) -> Any: ...


class Callable:
    def __call__(self, clicks: Any) -> Any: ...


@pytest.mark.parametrize(
    ("function", "code", "says"),
    [
        (print, "HW-VALUE-INVALID", "`print` is not defined with `def`"),
        (Callable(), "HW-VALUE-INVALID", "`Callable` is not"),
        (star, "HW-FUNCTION-PARAMETERS-UNSUPPORTED", "`*tables`"),
    ],
)
def test_what_is_no_function_for_a_table(function: Any, code: str, says: str) -> None:
    p = Declarations("p")
    p.source("clicks", hw.rate())
    p.table("few", python=function)
    p.sink("out", hw.noop(), reads="clicks")
    (problem,) = problems(p)
    assert (problem.code, says in problem.message) == (code, True)


def test_a_sink_calls_its_function_by_place() -> None:
    def by_place(batch: Any, batch_id: int, /) -> None: ...

    p = Declarations("p")
    p.source("clicks", hw.rate())
    p.sink("one", hw.foreach_batch(function=star), reads="clicks")
    p.sink("two", hw.foreach_batch(function=by_place), reads="clicks")
    assert len(p.spec().sinks) == 2


def test_a_parameter_with_a_default_that_names_no_table_keeps_it() -> None:
    p = Declarations("p")

    @p.table
    def few(clicks: Any, limit: int = 5, *, ads: Any = None) -> Any: ...

    p.source("clicks", hw.rate())
    p.source("ads", hw.rate())
    p.sink("out", hw.noop(), reads="few")
    spec = p.spec()
    assert Graph.of(spec).reads["few"] == ("clicks", "ads")
    assert Graph.of(spec).problems == ()


def test_a_folder_as_a_path() -> None:
    p = Declarations("p", run_dir=Path("/somewhere"))
    p.source("clicks", hw.rate())
    p.sink("out", hw.noop(), reads="clicks")
    assert p.spec().run_dir == Path("/somewhere")


def test_the_caller_may_live_in_a_folder_whose_name_begins_like_ours() -> None:
    neighbor = str(Path(hw.__file__).parent) + "_jsonl/pipeline.py"
    code = compile("\nplace = caller()", neighbor, "exec")
    names: dict[str, Any] = {"caller": caller}
    exec(code, names)
    assert names["place"] == Position(neighbor, 2)


BUILT_IN = sorted(name for name, each in all_connectors().items() if each.built_in)


def sides(connector: Connector) -> list[Any]:
    return [side.options for side in (connector.source, connector.sink) if side]


def parameter(key: str) -> str:
    """The name that Python allows: `class_` for `class`."""
    return f"{key}_" if keyword.iskeyword(key) else key


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_constructor_takes_exactly_the_keys_of_the_connector(name: str) -> None:
    function = getattr(headwater, name)
    keys = {parameter(key) for model in sides(all_connectors()[name]) for key in known_keys(model)}
    assert set(inspect.signature(function).parameters) == keys
    assert function.__doc__


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_constructor_wants_what_every_side_wants(name: str) -> None:
    parameters = inspect.signature(getattr(headwater, name)).parameters.values()
    wanted = {each.name for each in parameters if each.default is inspect.Parameter.empty}
    required = [
        {parameter(field.alias or key) for key, field in model.model_fields.items() if field.is_required()}
        for model in sides(all_connectors()[name])
    ]
    assert wanted == set.intersection(*required)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_key_is_given_by_its_name(name: str) -> None:
    parameters = inspect.signature(getattr(headwater, name)).parameters.values()
    assert {each.kind for each in parameters} <= {inspect.Parameter.KEYWORD_ONLY}


def test_what_is_not_given_is_not_there() -> None:
    call = headwater.files(path="in", format="csv", header=False, options={"a": 1})
    assert call == ConnectorCall(
        "files", {"path": "in", "format": "csv", "header": False, "options": {"a": 1}}
    )
    assert headwater.python(class_="a.py:B", schema="id int") == ConnectorCall(
        "python", {"class": "a.py:B", "schema": "id int"}
    )
    assert headwater.connector("mine", name="x", other=None) == ConnectorCall("mine", {"name": "x"})
