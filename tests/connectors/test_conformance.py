"""Every connector keeps the contract: those built in, and the one that the docs build."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from headwater.connectors import Connector, Sink, Source, all_connectors
from headwater.connectors.connector import Failure
from headwater.errors import Problem
from headwater.errors.catalogue.connectors import CONNECTOR_NOT_FOUND
from headwater.spec import Delivery, SinkOptions, SinkSpec, SourceOptions
from headwater.testing import conformance
from headwater.testing.conformance import problems_of
from tests.connectors.installing import answer, install, page_files, python, wheel

ASKED = """
import json
from headwater.testing.conformance import problems_of
print(json.dumps([problems_of("jsonl"), problems_of("spread"), problems_of("files")]))
"""


TOPIC = {"bootstrap_servers": "localhost:9092", "topic": "orders"}
SAMPLES: dict[str, dict[str, dict[str, Any]]] = {
    "catalog": {"source": {"table": "shop.orders"}},
    "console": {"sink": {"num_rows": 3}},
    "duckdb": {"sink": {"path": "shop.duckdb", "into": "orders"}},
    "files": {
        "source": {"path": "in", "format": "json", "schema": {"id": "int"}},
        "sink": {"path": "out", "format": "avro"},
    },
    "foreach": {"sink": {"function": "out.py:write"}},
    "foreach_batch": {"sink": {"function": "out.py:write"}},
    "kafka": {
        "source": {**TOPIC, "format": "json", "schema": {"id": "int"}},
        "sink": {**TOPIC, "value": "json"},
    },
    "memory": {"sink": {}},
    "mysql": {"sink": {"url": "mysql://ada@localhost/shop", "into": "orders", "key": "id"}},
    "noop": {"sink": {}},
    "postgres": {"sink": {"url": "postgresql://localhost/shop", "into": "orders", "key": "id"}},
    "python": {"source": {"class": "feeds.py:Numbers"}, "sink": {"class": "feeds.py:Numbers"}},
    "rate": {"source": {"rows_per_second": 5}},
    "rate_per_batch": {"source": {"rows_per_batch": 5}},
    "sqlite": {"sink": {"path": "shop.db", "into": "orders"}},
    "socket": {"source": {"host": "localhost", "port": 9999}},
}
"""Keys that a user might write, for both sides of each connector."""


@pytest.mark.parametrize("name", sorted(all_connectors()))
def test_a_built_in_connector_conforms(name: str) -> None:
    assert problems_of(name, **SAMPLES[name]) == []


def test_the_connectors_of_the_page_conform(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    site = install(wheel(page_files(), tmp_path / "wheels"), tmp_path / "site")
    assert answer(python(ASKED, site, tmp_path)) == [[], [], []]


class Bare(SourceOptions):
    """Nothing of its own."""


class Wordless(SinkOptions):
    """A key that says nothing."""

    path: str = Field(default="x")


class NoReader(Source[Bare]):
    options = Bare
    stream_keys = ("speed",)


class NoWriter(Sink[Wordless]):
    options = Wordless
    modes = frozenset({"replace"})
    delivery = Delivery.DUPLICATES


class HalfValidating(Source[Bare]):
    """Says that it validates rows, and never does."""

    options = Bare
    replayable = True
    validity_keys = ("nothing",)

    def validates(self, options: Bare) -> bool:
        return True

    def read_stream(self, spark: Any) -> Any:  # type: ignore[override]
        raise NotImplementedError


class Careless(Sink[Wordless]):
    """Answers with what nobody can use."""

    options = Wordless
    modes = frozenset({"append"})
    delivery = Delivery.DUPLICATES
    batch = False

    def jars(self, options: Wordless) -> tuple[str, ...]:
        return ("no_such.jar",)

    def spark_settings(self, options: Wordless) -> dict[str, str]:
        return {"extensions": "x"}

    def explain(self, failure: Failure, sink: SinkSpec) -> Problem:
        return CONNECTOR_NOT_FOUND.at(None, side="sink", name="x", hint="", known="")

    def write_stream(self, writer: Any, options: Wordless, context: Any) -> Any:
        return writer


def test_half_an_ability_and_wrong_answers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    half = {"half": Connector("half", "Half.", source=HalfValidating(), sink=Careless())}
    monkeypatch.setattr(conformance, "all_connectors", lambda: half)
    found = problems_of("half", source={"speed": 3}, sink={})
    assert found[:4] == [
        "`HalfValidating.validity_keys` has `nothing`, which `Bare` does not have",
        "`HalfValidating` has `validates`, `validity_keys` but not `read_validated`, `has_read`, so the "
        "ability `ValidatesRows` is incomplete",
        "`HalfValidating.read_stream` does not accept (spark, options, context): too many positional arguments",
        "`HalfValidating` has no `read_batch`",
    ]
    assert found[4] == "the key `path` of `Wordless` has no description"
    assert found[5].startswith("`Bare` does not accept {'speed': 3}: 1 validation error for Bare")
    assert [each.partition(",")[0] for each in found[6:9]] == [
        "`Careless.jars` contains `no_such.jar`",
        "`Careless.spark_settings` has `extensions`: expected a Spark setting with a string",
        "`Careless.explain` explains a failure that it cannot know",
    ]


class Texts(Careless):
    """A text and a list where others give a tuple and a mapping."""

    fixed_keys = "path"  # type: ignore[assignment]

    def jars(self, options: Wordless) -> tuple[str, ...]:
        return "no_such.jar"  # type: ignore[return-value]

    def spark_settings(self, options: Wordless) -> dict[str, str]:
        return ["spark.a"]  # type: ignore[return-value]


def test_a_text_for_a_tuple_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"texts": Connector("texts", "Texts.", sink=Texts())}
    monkeypatch.setattr(conformance, "all_connectors", lambda: texts)
    assert {each for each in problems_of("texts", sink={}) if each.startswith("`Texts.")} == {
        "`Texts.fixed_keys` is a string, expected a tuple of keys",
        "`Texts.jars` returns a string, expected a tuple of strings",
        "`Texts.spark_settings` does not return a mapping of settings to strings",
        "`Texts.explain` explains a failure that it cannot know",
    }


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"broken": Connector("broken", "No sentence", source=NoReader(), sink=NoWriter())}
    monkeypatch.setattr(conformance, "all_connectors", lambda: broken)
    found = problems_of("broken")
    assert found == [
        "its summary is not a sentence with a period",
        "`NoReader.stream_keys` has `speed`, which is not a key",
        "`NoReader.replayable` is not set",
        "`NoReader` has no `read_stream`",
        "`NoReader` has no `read_batch`",
        "the key `path` of `Wordless` has no description",
        "`NoWriter.modes` is not a subset of append, complete, update",
        "`NoWriter` has no `write_stream`",
        "`NoWriter` has no `write_batch`",
        "importing it imports PySpark; import PySpark in the methods that need it",
    ]
    assert problems_of("absent") == [
        "connector `absent` is not installed under the entry points `headwater.connectors`"
    ]


def test_a_connector_that_imports_spark_is_told(tmp_path: Path) -> None:
    files = page_files()
    future = "from __future__ import annotations\n"
    text = files["headwater_jsonl/spread.py"]
    files["headwater_jsonl/spread.py"] = text.replace(future, f"{future}\nimport pyspark\n")
    (tmp_path / "wheels").mkdir()
    site = install(wheel(files, tmp_path / "wheels"), tmp_path / "site")
    told: list[Any] = json.loads(python(ASKED, site, tmp_path).stdout.splitlines()[-1])
    assert told[1] == ["importing it imports PySpark; import PySpark in the methods that need it"]
