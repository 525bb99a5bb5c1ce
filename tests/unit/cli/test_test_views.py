"""`headwater test`: lines, exit codes, JSON, JUnit and the display on a terminal, without Spark."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headwater.cli.test_views import view_of_tests
from headwater.testing.results import StepPlayed, TestBegun, TestNote, TestPlayed, TestsChosen, TestsResult
from tests.unit.cli.conftest import Headwater
from tests.unit.testing.fake_player import FakePlayer, put_in_place
from tests.unit.testing.played_results import failed, result, step

SECONDS = re.compile(r"\(?\d+\.\d s\)?")


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_in_place(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yml").touch()
    return tmp_path


def write(folder: Path, *tests: str, name: str = "test_words.yml") -> None:
    lines = "".join(f"  {test}: [restart]\n" for test in tests)
    (folder / name).write_text(f"pipeline: p.yml\ntests:\n{lines}", encoding="utf-8")


def lines_of(text: str) -> list[str]:
    told = [SECONDS.sub("T", line) for line in text.splitlines()]
    return [line for line in told if line != "printed by the user's code"]


def test_tests_that_pass(headwater: Headwater, folder: Path) -> None:
    write(folder, "one", "two waits")
    answer = headwater("test")
    assert (answer.code, answer.err) == (0, "Starting Spark …\n")
    assert lines_of(answer.out) == [
        "test_words.yml",
        "ok    one  T",
        "ok    two waits  T",
        "  idle: clicks (blocks the watermark of joined: 11:57)",
        "2 passed, 0 failed, 0 errors in T",
    ]


def test_a_test_that_fails(headwater: Headwater, folder: Path) -> None:
    write(folder, "one", "two fails")
    answer = headwater("test", folder / "test_words.yml")
    assert answer.code == 1
    assert lines_of(answer.out)[2:] == [
        "FAIL  two fails  T",
        "  step 2, feed 3 to words · batches 1 to 2 · watermark 11:57 → 12:04",
        "  tests/test_words.yml:7",
        "    the rows of counts do not match the expected rows",
        "      2 rows as expected, 1 missing, 1 changed",
        "      - missing     {start: 12:00, n: 1}",
        "      ~ changed     {start: 12:05, n: 2}   n: expected 2, got 3",
        "1 passed, 1 failed, 0 errors in T",
    ]


def test_a_refusal_weighs_more_than_a_failure(headwater: Headwater, folder: Path) -> None:
    write(folder, "fails", "refused")
    (folder / "test_bad.yml").write_text("pipeline: q.yml\ntests: {a: [restrat]}\n", encoding="utf-8")
    answer = headwater("test")
    assert answer.code == 3
    assert lines_of(answer.out)[:8] == [
        "ERROR test_bad.yml  T",
        "  test_bad.yml:1:11: error HW-TEST-PIPELINE-NOT-FOUND",
        "    Pipeline file q.yml not found.",
        "    Paths are relative to the directory of the test file. Did you mean `p.yml`?",
        "  test_bad.yml:2:13: error HW-TEST-UNKNOWN-STEP",
        "    Unknown step `restrat`.",
        "    Did you mean `restart`?",
        "test_words.yml",
    ]
    assert lines_of(answer.out)[-1] == "0 passed, 1 failed, 2 errors in T"


def test_options_reach_the_run(headwater: Headwater, folder: Path) -> None:
    write(folder, "one", "two fails", "three")
    answer = headwater(
        "test",
        "-x",
        "-k",
        "one or two",
        "--shuffle",
        "1",
        "--crash",
        "--conf",
        "spark.a=b",
        "--batch-timeout",
        "5s",
    )
    assert answer.code == 1
    [player] = FakePlayer.made
    assert (player.conf, player.limit) == ({"spark.a": "b"}, 5.0)
    assert [test.name for test in player.played] == [
        "one", "one [shuffled 1]", "one [crashed]", "two fails",
    ]  # fmt: skip


def test_verbose_tells_every_step(headwater: Headwater, folder: Path) -> None:
    write(folder, "one")
    assert lines_of(headwater("test", "-v").out)[1:-1] == [
        "ok    one  T",
        "  step 1, feed 2 to words",
        "    joined: batch 0 · watermark none · no data, 0 out, 0 late, 0 in state",
        "    joined: then watermark 11:57",
    ]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "HW-TEST-FILES-NOT-FOUND"),
        (("-k", "zzz", "test_words.yml"), "HW-TEST-NO-MATCH"),
        (("-k", "and", "test_words.yml"), "HW-TEST-SELECTION-INVALID"),
        (("nowhere",), "HW-TEST-PATH-NOT-FOUND"),
        (("--batch-timeout", "5", "test_words.yml"), "HW-DURATION-INVALID"),
        (("--conf", "a", "test_words.yml"), "HW-CONF-INVALID"),
        (("--diagram", "a.svg", "test_words.yml"), "HW-TEST-DRAWING-CONFLICT"),
        (("--junit", "p.yml/a.xml", "test_words.yml"), "HW-TEST-OUTPUT-UNWRITABLE"),
    ],
)
def test_calls_that_make_no_sense(
    headwater: Headwater, folder: Path, arguments: tuple[str, ...], code: str
) -> None:
    if arguments:
        write(folder, "one", "two")
    answer = headwater("test", *arguments)
    assert (answer.code, f"error {code}" in answer.err) == (2, True)
    told = headwater("test", "--json", *arguments)
    assert (told.code, [problem["code"] for problem in told.json["problems"]]) == (2, [code])


def test_json_is_one_document_and_nothing_beside(headwater: Headwater, folder: Path) -> None:
    write(folder, "one", "two fails")
    answer = headwater("test", "--json")
    assert (answer.code, answer.json["ok"], answer.json["failed"]) == (1, False, 1)
    assert [test["name"] for test in answer.json["tests"]] == ["one", "two fails"]
    assert "printed by the user's code" in answer.err


def test_junit(headwater: Headwater, folder: Path) -> None:
    write(folder, "one waits", '"two fails <&>\\a"', name="test_a.yml")
    write(folder, "refused", name="test_b.yml")
    assert headwater("test", "--junit", "out/report.xml").code == 3
    root = ElementTree.parse(folder / "out" / "report.xml").getroot()
    counts = ("tests", "failures", "errors", "skipped")
    assert [root.get(name) for name in counts] == ["3", "1", "1", "0"]
    assert [(suite.get("name"), *map(suite.get, counts)) for suite in root] == [
        ("test_a.yml", "2", "1", "0", "0"),
        ("test_b.yml", "1", "0", "1", "0"),
    ]
    waits, fails, refused = root.iter("testcase")
    assert (waits.findtext("system-out"), fails.get("name"), fails.get("line")) == (
        "  idle: clicks (blocks the watermark of joined: 11:57)",
        "two fails <&>\ufffd",
        "4",
    )
    failure, error = fails.find("failure"), refused.find("error")
    assert failure is not None
    assert error is not None
    assert (
        failure.get("message") == "step 2, feed 3 to words: the rows of counts do not match the expected rows"
    )
    assert (failure.text or "").splitlines()[0].startswith("  step 2, feed 3 to words · batches 1 to 2")
    assert error.get("message") == "HW-BROKEN: It is broken: so."


def test_pictures_are_named(headwater: Headwater, folder: Path) -> None:
    write(folder, "one")
    answer = headwater("test", "--diagram", "one.svg")
    assert (answer.code, "drew one.svg" in answer.out, (folder / "one.svg").is_file()) == (0, True, True)


def test_on_a_terminal_the_test_and_step_that_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    passed = result(step(1), name="one [x]")
    played = TestsResult((passed, failed()), 2.0)
    with view_of_tests(as_json=False, verbose=False) as view:
        for event in (
            TestsChosen(2),
            TestBegun("one [x]", Path("a.yml"), 3),
            TestNote("Starting Spark …"),
            StepPlayed(step(1)),
        ):
            view.event(event)
            view.bar.refresh()  # type: ignore[attr-defined]
        view.event(TestPlayed(passed))
        view.event(TestPlayed(failed()))
    view.end(played)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "Starting Spark …" in text
    assert "one [x] · step 1 of 3, feed 2 to words" in text
    assert "0/2" in text
    assert "\x1b[1;32mok\x1b[0m    one [x]" in terminal.getvalue()
    assert "\x1b[1;31mFAIL\x1b[0m  late rows" in terminal.getvalue()
    assert text.rstrip().endswith("1 passed, 1 failed, 0 errors in 2.0 s")
