"""The JSON Schema of pipeline files says what the loaders say."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from headwater.connectors import Connector, Sink, all_connectors
from headwater.loaders import json_schema
from headwater.loaders.json_schema import keys_of, pipeline_schema
from headwater.loaders.keys import PipelineKeys, TableKeys, known_keys
from headwater.spec import Delivery, SinkOptions
from headwater.spec.pipeline import SinkKeys, SourceKeys

SCHEMA = pipeline_schema()
VALIDATOR = Draft202012Validator(SCHEMA)

GOOD: dict[str, Any] = {
    "name": "ad-revenue",
    "timezone": "Europe/Berlin",
    "spark": {"spark.sql.shuffle.partitions": 4, "spark.ui.enabled": False, "spark.app.name": "x"},
    "watermark_policy": "fastest",
    "spark_metrics": {
        "csv": {"directory": "m", "period": "5 seconds"},
        "graphite": {"port": 2004},
        "jmx": {},
    },
    "sources": {
        "clicks": {
            "connector": "files",
            "path": ["a/", "b/"],
            "format": "json",
            "schema": {"at": "timestamp", "place": {"x": "int"}},
            "watermark": {"column": "at", "delay": "10 minutes"},
            "max_bytes_per_batch": "512 MB",
        },
        "ticks": {"connector": "rate", "rows_per_second": 5, "ramp_up_time": "10 seconds"},
        "steps": {"connector": "rate_per_batch", "rows_per_batch": 2, "start_timestamp": "2026-01-31"},
    },
    "tables": {
        "short": "SELECT * FROM clicks",
        "long": {"sql": "SELECT * FROM clicks"},
        "coded": {"python": "tables.py:coded", "watermark": {"column": "at", "delay": "60s"}},
    },
    "sinks": {
        "out": {"reads": "short", "connector": "files", "path": "out/", "format": "csv", "header": True},
        "seen": {"reads": "long", "connector": "console", "mode": "complete", "trigger": "every 10 seconds"},
        "mine": {"reads": "coded", "connector": "foreach_batch", "function": "out.py:write"},
        "none": {"reads": "ticks", "connector": "noop", "options": {"a": 1, "b": True, "c": "${secret:C}"}},
    },
}


def changed(route: str, value: object) -> dict[str, Any]:
    """The good file with one value set."""
    file = deepcopy(GOOD)
    *way, last = route.split("/")
    inner = file
    for step in way:
        inner = inner[step]
    inner[last] = value
    return file


def paths(file: dict[str, Any]) -> set[str]:
    """Where the schema finds a fault."""
    return {"/".join(map(str, error.absolute_path)) for error in VALIDATOR.iter_errors(file)}


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["title"] == "Headwater pipeline"


def test_a_good_file_passes() -> None:
    assert paths(GOOD) == set()


@pytest.mark.parametrize(
    ("route", "value"),
    [
        ("name", "${NAME}"),
        ("watermark_policy", "${POLICY:-slowest}"),
        ("sources", None),
        ("sources/clicks/static", "${STATIC}"),
        ("sources/clicks/format", "${FORMAT}"),
        ("sources/clicks/max_files_per_batch", "${MOST:-10}"),
        ("sources/clicks/schema", "clicks.ddl"),
        ("sources/clicks/connector", "${CONNECTOR}"),
        ("sources/ticks/rows_per_second", "${ROWS}"),
        ("tables/coded/python", "${CODE}"),
        ("sinks/seen/mode", "${MODE}"),
        ("sinks/seen/num_rows", "${ROWS:-20}"),
    ],
)
def test_variables_and_other_forms_pass(route: str, value: object) -> None:
    assert paths(changed(route, value)) == set()


@pytest.mark.parametrize(
    ("route", "value", "fault"),
    [
        ("name", "two words", "name"),
        ("watermark_policy", "middle", "watermark_policy"),
        ("sink", {}, ""),
        ("sources/9lives", {"connector": "rate"}, "sources"),
        ("sources/spark", {"connector": "rate"}, "sources"),
        ("sources/clicks/connector", "kafak", "sources/clicks/connector"),
        ("sources/clicks/pth", "a/", "sources/clicks"),
        ("sources/clicks/format", "jsn", "sources/clicks/format"),
        ("sources/clicks/latest_first", "often", "sources/clicks/latest_first"),
        ("sources/clicks/watermark", {"column": "at"}, "sources/clicks/watermark"),
        ("sources/clicks/position", None, "sources/clicks"),
        ("sources/ticks", {}, "sources/ticks"),
        ("sources/ticks/rows_per_second", 0, "sources/ticks/rows_per_second"),
        ("sources/steps", {"connector": "rate_per_batch"}, "sources/steps"),
        ("tables/long", {"sql": "SELECT 1", "python": "a.py:f"}, "tables/long"),
        ("tables/long", {}, "tables/long"),
        ("sinks/out/mode", "update", "sinks/out/mode"),
        ("sinks/out/columns", {}, "sinks/out"),
        ("sinks/mine/function", "out.write", "sinks/mine/function"),
        ("sinks/none/options", {"a": []}, "sinks/none/options/a"),
    ],
)
def test_a_fault_is_found_at_its_place(route: str, value: object, fault: str) -> None:
    assert paths(changed(route, value)) == {fault}


def models() -> Iterator[tuple[str, type[BaseModel]]]:
    for connector in all_connectors().values():
        for side in ("source", "sink"):
            if part := getattr(connector, side):
                yield f"{side}.{connector.name}", part.options


@pytest.mark.parametrize(("name", "options"), list(models()))
def test_every_key_of_every_connector_is_there(name: str, options: type[BaseModel]) -> None:
    common = SourceKeys if name.startswith("source.") else SinkKeys
    node = SCHEMA["$defs"][name]
    assert set(node["properties"]) == {*known_keys(common), *known_keys(options)}
    assert node["additionalProperties"] is False
    assert all(each["description"] for each in node["properties"].values())


def test_every_key_of_the_file_and_of_tables_is_there() -> None:
    assert set(SCHEMA["properties"]) == set(known_keys(PipelineKeys))
    assert set(SCHEMA["$defs"]["table"]["anyOf"][1]["properties"]) == set(known_keys(TableKeys))


def test_every_connector_can_be_named() -> None:
    for side in ("source", "sink"):
        named = SCHEMA["$defs"][side]["properties"]["connector"]["anyOf"][0]["enum"]
        assert named == [each.name for each in all_connectors().values() if getattr(each, side)]


def test_defaults_stand_as_users_write_them() -> None:
    steps, seen = (SCHEMA["$defs"][name]["properties"] for name in ("source.rate_per_batch", "sink.console"))
    assert steps["advance_per_batch"]["default"] == "1 second"
    assert steps["start_timestamp"]["default"] == "1970-01-01T00:00:00Z"
    assert seen["mode"]["default"] == "append"
    assert "default" not in seen["trigger"]
    assert "default" not in steps["num_partitions"]


def test_choices_are_one_list_with_their_examples_beside() -> None:
    assert keys_of(all_connectors()["files"].source.options)["max_bytes_per_batch"] == {  # type: ignore[union-attr]
        "description": "Maximum size of new files per batch, for each path, such as `512 MB`. Default: no limit.",
        "examples": ["512 MB"],
        "anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}],
    }


class Opaque:
    """A type that pydantic knows nothing about."""


class Inner(BaseModel):
    """Keys inside a key."""

    depth: int = Field(description="How deep.")
    inner: Inner | None = Field(default=None, description="Deeper still.")


class OutsideSink(SinkOptions):
    """A sink of another package."""

    what: Opaque = Field(description="Anything.")
    inner: Inner = Field(description="Nested.")


def test_a_connector_from_outside_is_described_as_far_as_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    class OutsideWriter(Sink[OutsideSink]):
        options = OutsideSink
        modes = frozenset({"update"})
        delivery = Delivery.DUPLICATES

    outside = Connector(name="outside", summary="Outside.", sink=OutsideWriter())
    installed = {**all_connectors(), "outside": outside}
    monkeypatch.setattr(json_schema, "all_connectors", lambda: installed)
    schema = pipeline_schema()
    Draft202012Validator.check_schema(schema)
    sink = {"reads": "t", "connector": "outside", "mode": "update", "what": [1], "inner": {"depth": 1}}
    good = {"name": "p", "sinks": {"s": {**sink, "inner": {"depth": 1, "inner": {"depth": "${N}"}}}}}
    bad = {"name": "p", "sinks": {"s": {**sink, "inner": {"depth": 1, "inner": {"deep": 2}}}}}
    assert Draft202012Validator(schema).is_valid(good)
    assert not Draft202012Validator(schema).is_valid(bad)
