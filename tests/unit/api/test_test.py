"""A run of tests: what is played, in which order, and how it ends; with a player that needs no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from headwater.api.test import run_tests
from headwater.errors import UsageError
from headwater.testing.results import (
    StepPlayed,
    TestBegun,
    TestEvent,
    TestNote,
    TestPlayed,
    TestsChosen,
    TestsResult,
)
from headwater.testing.steps import Crash, Feed, Row
from tests.unit.testing.fake_player import FakePlayer, put_in_place


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_in_place(monkeypatch)
    (tmp_path / "p.yml").touch()
    (tmp_path / "test_a.yml").write_text(
        "pipeline: p.yml\ntests:\n  one: [{feed: {a: [[1], [2]]}}]\n  two fails: [restart]\n",
        encoding="utf-8",
    )
    (tmp_path / "test_b.yml").write_text("pipeline: p.yml\ntests: {three: [restart]}\n", encoding="utf-8")
    return tmp_path


def names(result: TestsResult) -> list[tuple[str, str]]:
    return [(each.name, each.outcome) for each in result.results]


def test_every_test_of_a_folder_is_played_by_one_player(folder: Path) -> None:
    events: list[TestEvent] = []
    result = run_tests([folder], conf={"spark.a": "b"}, limit=5.0, emit=events.append)
    assert names(result) == [("one", "passed"), ("two fails", "failed"), ("three", "passed")]
    assert (result.exit_code, result.summary.rpartition(" in ")[0]) == (1, "2 passed, 1 failed, 0 errors")
    [player] = FakePlayer.made
    assert (player.conf, player.limit, player.closed) == ({"spark.a": "b"}, 5.0, True)
    assert [type(event) for event in events] == [
        TestsChosen, TestBegun, TestNote, StepPlayed, TestPlayed, TestBegun, StepPlayed, StepPlayed,
        TestPlayed, TestBegun, StepPlayed, TestPlayed,
    ]  # fmt: skip
    assert events[0] == TestsChosen(3)
    assert events[1] == TestBegun("one", folder / "test_a.yml", 1)


def test_a_file_that_cannot_be_read_is_refused_and_the_others_run(folder: Path) -> None:
    (folder / "test_a.yml").write_text("pipeline: p.yml\ntests:\n  one: [restrat]\n", encoding="utf-8")
    result = run_tests([folder])
    assert names(result) == [(str(folder / "test_a.yml"), "error"), ("three", "passed")]
    assert [problem.code for problem in result.results[0].problems] == ["HW-TEST-UNKNOWN-STEP"]
    assert result.exit_code == 3


def test_where_every_file_is_refused_nothing_is_started(folder: Path) -> None:
    result = run_tests([folder / "p.yml"])
    assert ([each.outcome for each in result.results], FakePlayer.made) == (["error"], [])


def test_the_first_that_does_not_pass_can_end_the_run(folder: Path) -> None:
    assert names(run_tests([folder], stop_at_first=True)) == [("one", "passed"), ("two fails", "failed")]


@pytest.mark.parametrize(
    ("k", "found"),
    [("three", ["three"]), ("test_a and not fails", ["one"]), ("ONE or three", ["one", "three"])],
)
def test_tests_are_chosen_by_their_names_and_their_file(folder: Path, k: str, found: list[str]) -> None:
    assert [name for name, _ in names(run_tests([folder], k=k))] == found


def test_no_test_chosen(folder: Path) -> None:
    with pytest.raises(UsageError) as error:
        run_tests([folder], k="thre3")
    [problem] = error.value.problems
    assert (problem.code, problem.params) == (
        "HW-TEST-NO-MATCH",
        {"expression": "thre3", "count": "3 tests", "hint": "Did you mean `-k 'three'`?"},
    )
    with pytest.raises(UsageError) as error:
        run_tests([folder], k="xyz")
    assert (
        error.value.problems[0].params["hint"]
        == "Use a word of one of these names: `one`, `two fails`, `three`."
    )


def test_no_test_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        run_tests([tmp_path])
    [problem] = error.value.problems
    assert (problem.code, problem.params) == ("HW-TEST-FILES-NOT-FOUND", {"where": str(tmp_path)})


def test_harder_conditions(folder: Path) -> None:
    result = run_tests([folder], k="one or three", shuffle=2, crash=True)
    assert [name for name, _ in names(result)] == [
        "one", "one [shuffled 1]", "one [shuffled 2]", "one [crashed]",
        "three", "three [shuffled 1]", "three [shuffled 2]", "three [crashed]",
    ]  # fmt: skip
    [player] = FakePlayer.made
    shuffled, crashed = player.played[1], player.played[3]
    [feed] = shuffled.steps
    assert isinstance(feed, Feed)
    assert [row.values for row in feed.rows["a"] if isinstance(row, Row)] == [[2], [1]]
    assert [type(step) for step in crashed.steps] == [Feed, Crash]


def test_pictures_of_all_tests(folder: Path) -> None:
    (folder / "test_b.yml").write_text("pipeline: p.yml\ntests: {'One!': [restart]}\n", encoding="utf-8")
    result = run_tests([folder], draw=folder / "pictures", shuffle=1)
    files = [folder / "pictures" / name for name in ("one.svg", "two_fails.svg", "one_2.svg")]
    assert result.diagrams == tuple(map(str, files))
    assert {ElementTree.parse(file).getroot().tag.rpartition("}")[2] for file in files} == {"svg"}


def test_one_picture_is_of_one_test(folder: Path) -> None:
    file = folder / "new" / "one.svg"
    assert run_tests([folder], k="one", draw=file, crash=True).diagrams == (str(file),)
    assert file.is_file()
    with pytest.raises(UsageError) as error:
        run_tests([folder], draw=file)
    [problem] = error.value.problems
    assert (problem.code, problem.params) == ("HW-TEST-DRAWING-CONFLICT", {"path": str(file), "count": 3})


def test_a_picture_that_cannot_be_written(folder: Path) -> None:
    with pytest.raises(UsageError) as error:
        run_tests([folder], draw=folder / "p.yml")
    assert error.value.problems[0].code == "HW-TEST-OUTPUT-UNWRITABLE"
    assert FakePlayer.made[0].closed


def test_the_player_is_closed_when_the_run_is_broken_off(folder: Path) -> None:
    def broken_off(event: Any) -> None:
        if isinstance(event, StepPlayed):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tests([folder], emit=broken_off)
    assert FakePlayer.made[0].closed


def test_the_result_is_json(folder: Path) -> None:
    told = run_tests([folder]).to_json()
    assert (told["ok"], told["passed"], told["failed"], told["error"]) == (False, 2, 1, 0)
    assert [test["outcome"] for test in told["tests"]] == ["passed", "failed", "passed"]
