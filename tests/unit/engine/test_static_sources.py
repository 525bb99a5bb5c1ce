"""Which failures are about a file of a static source, and which sources they are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine.static_sources import StaticSources
from headwater.run_directory import RunDirectory
from headwater.spark.errors import PlainSparkError
from headwater.values import Secret
from tests.unit.specs import ROOT, spec_of

SOURCES = """
name: p
sources:
  ads: {connector: files, path: "PLACE/ads", format: text, static: true}
  shops: {connector: files, path: "PLACE/{eu,us}/*.csv", format: text, static: true}
  stream: {connector: rate}
sinks: {out: {reads: stream, connector: noop}}
"""
GONE = "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file %s. File does not exist."
BROKEN = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file %s. "


class Rows:
    """Static rows that say what they are told to."""

    def __init__(self) -> None:
        self.is_outdated = False
        self.written_over: str | None = None
        self.says: str | None = None
        self.asked: list[str] = []

    def start(self) -> None: ...

    def again(self, query: str) -> None:
        self.asked.append(query)

    def outdated(self, query: str) -> bool:
        return self.is_outdated

    def news(self) -> str | None:
        told, self.written_over = self.written_over, None
        return told

    def trouble(self, query: str) -> str | None:
        return self.says

    def close(self) -> None: ...


def statics(place: str = "s3a://bucket") -> tuple[StaticSources, dict[str, Rows]]:
    spec = spec_of(SOURCES.replace("PLACE", place))
    found = StaticSources(ROOT, RunDirectory(ROOT / ".headwater"))
    rows = {source.name: Rows() for source in spec.sources[:2]}
    for source in spec.sources[:2]:
        found.add(source, rows[source.name])
    return found, rows


@pytest.mark.parametrize(
    ("file", "whose"),
    [
        ("s3a://bucket/ads/1%20.txt", "ads"),
        ("s3a://bucket/ads", "ads"),
        ("s3a://bucket/ads_stream/1.txt", None),
        ("s3a://bucket/us/a.csv", "shops"),
        ("s3a://bucket/us/a.txt", None),
        (f"file://{ROOT}/.headwater/static/shops/0/a/1", "shops"),
        (f"file://{ROOT}/.headwater/static/shops2/0/a/1", None),
    ],
)
def test_a_file_that_is_gone_belongs_to_one_source(file: str, whose: str | None) -> None:
    found, rows = statics()
    assert found.again("q", PlainSparkError(GONE % file)) is (whose is not None)
    assert {name: each.asked for name, each in rows.items()} == {
        name: ["q"] if name == whose else [] for name in rows
    }


def test_places_below_the_project_and_with_a_scheme(tmp_path: Path) -> None:
    (tmp_path / "ads").mkdir()
    for place in (tmp_path.as_uri(), str(tmp_path)):
        found, rows = statics(place)
        assert found.again("q", PlainSparkError(GONE % f"{tmp_path.as_uri()}/ads/1"))
        assert rows["ads"].asked == ["q"]


def test_a_batch_that_misread_a_changed_file_runs_again() -> None:
    found, rows = statics()
    error = PlainSparkError(BROKEN % "file:/x")
    assert not found.again("q", error)
    rows["ads"].is_outdated = True
    assert found.again("q", error)
    assert (rows["ads"].asked, rows["shops"].asked) == (["q"], [])
    # Whatever else fails has nothing to do with it.
    assert not found.again("q", PlainSparkError("[DIVIDE_BY_ZERO] Division by zero."))


def test_what_was_written_over_is_told_at_the_source() -> None:
    found, rows = statics()
    rows["shops"].written_over = "/data/a.csv"
    (problem,) = found.news()
    assert (problem.code, problem.params) == (
        "HW-STATIC-FILE-OVERWRITTEN",
        {"name": "shops", "file": "/data/a.csv"},
    )
    assert problem.place is not None
    assert problem.place.line == 4
    assert found.news() == []


def test_what_can_not_be_read_is_told_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATIC_TOKEN", "hush-hush")
    Secret("${secret:STATIC_TOKEN}").reveal()
    found, rows = statics()
    rows["ads"].says = "no way to hush-hush"
    problem = found.problem("q")
    assert problem is not None
    assert problem.params == {"name": "ads", "says": "no way to ***"}
