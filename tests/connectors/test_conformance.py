"""Every connector keeps the contract: those built in, and the one that the docs build."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from headwater.connectors import Connector, Sink, Source, all_connectors
from headwater.spec import Delivery, SinkOptions, SourceOptions
from headwater.testing import conformance
from headwater.testing.conformance import problems_of
from tests.connectors.installing import answer, install, page_files, python, wheel

ASKED = """
import json
from headwater.testing.conformance import problems_of
print(json.dumps([problems_of("jsonl"), problems_of("spread"), problems_of("files")]))
"""


@pytest.mark.parametrize("name", sorted(all_connectors()))
def test_a_built_in_connector_conforms(name: str) -> None:
    assert problems_of(name) == []


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
    delivery = Delivery.REPEATS


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"broken": Connector("broken", "No sentence", source=NoReader(), sink=NoWriter())}
    monkeypatch.setattr(conformance, "all_connectors", lambda: broken)
    found = problems_of("broken")
    assert found == [
        "its summary is not a sentence with a full stop",
        "`NoReader.stream_keys` has `speed`, which is no key",
        "`NoReader.replayable` is not set",
        "`NoReader` has no `read_stream`",
        "`NoReader` has no `read_batch`",
        "the key `path` of `Wordless` has no description",
        "`NoWriter.modes` is not some of append, complete, update",
        "`NoWriter` has no `write_stream`",
        "`NoWriter` has no `write_batch`",
        "importing it imports PySpark; import that in the methods that need it",
    ]
    assert problems_of("absent") == [
        "no connector `absent` is installed under the entry points `headwater.connectors`"
    ]


def test_a_connector_that_imports_spark_is_told(tmp_path: Path) -> None:
    files = page_files()
    future = "from __future__ import annotations\n"
    text = files["headwater_jsonl/spread.py"]
    files["headwater_jsonl/spread.py"] = text.replace(future, f"{future}\nimport pyspark\n")
    (tmp_path / "wheels").mkdir()
    site = install(wheel(files, tmp_path / "wheels"), tmp_path / "site")
    told: list[Any] = json.loads(python(ASKED, site, tmp_path).stdout.splitlines()[-1])
    assert told[1] == ["importing it imports PySpark; import that in the methods that need it"]
