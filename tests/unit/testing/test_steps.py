"""Test files: what is written becomes tests with places, and every mistake is told at its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from headwater.errors import PipelineError, Problem
from headwater.testing.steps import (
    UNSAID,
    Advance,
    ChangeTo,
    Check,
    Crash,
    Feed,
    ReadStep,
    Restart,
    Row,
    Start,
    Stop,
    Test,
)
from headwater.testing.test_files import load_tests

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A test file in `tests/`, with what tests name around it."""
    (tmp_path / "tests").mkdir()
    for name in ("words.yml", "version2.yml", "several.py"):
        (tmp_path / name).touch()
    (tmp_path / "tests" / "more.jsonl").write_text('{"word": "owl"}\n["cat"]\n', encoding="utf-8")
    (tmp_path / "tests" / "checks.py").write_text("def totals(spark): ...\ndef two(a, b): ...\n")

    def written(text: str) -> Path:
        file = tmp_path / "tests" / "test_words.yml"
        file.write_text(dedent(text), encoding="utf-8")
        return file

    return written


def loaded(write: Write, text: str) -> tuple[Test, ...]:
    return load_tests(write(text))


def steps_of(write: Write, steps: str) -> Test:
    """The only test of a file, with its steps from line 4 on."""
    lines = "".join(f"    {line}\n" for line in dedent(steps).strip().splitlines())
    [test] = load_tests(write(f"pipeline: ../words.yml\ntests:\n  first:\n{lines}"))
    return test


def refused(write: Write, text: str) -> list[tuple[str, int]]:
    return [(problem.code, problem.place.line) for problem in problems(write, text) if problem.place]


def problems(write: Write, text: str) -> list[Problem]:
    with pytest.raises(PipelineError) as error:
        load_tests(write(text))
    assert all(problem.place for problem in error.value.problems)
    assert all(problem.message and problem.hint for problem in error.value.problems)
    return list(error.value.problems)


def step_problem(write: Write, steps: str) -> Problem:
    """The only thing that is wrong with some steps."""
    with pytest.raises(PipelineError) as error:
        steps_of(write, steps)
    [problem] = error.value.problems
    assert problem.place
    return problem


def test_a_whole_file(write: Write, tmp_path: Path) -> None:
    [first, second] = loaded(
        write,
        """\
        pipeline: ../words.yml
        day: 2026-03-01
        clock: 08:00
        env: {TOPIC: words, PORT: 9092}
        given: {ads: [{ad: a, name: x}], shops: real}
        sinks: {counts: real, totals: {read: "checks.py:totals"}, others: captured}
        no_data_batches: false
        tests:
          late rows update old windows:
            - feed: {words: [{at: 12:07, word: owl}, [12:02, cat]]}
              expect: {counts: [{start: 12:00, word: owl, n: 1}]}
              watermark: 11:57
            - restart
          another:
            given: {ads: []}
            env: {TOPIC: others}
            sinks: captured
            no_data_batches: true
            steps:
              - feed: {words: more.jsonl}
        """,
    )
    folder = tmp_path / "tests"
    assert (first.name, first.pipeline, first.file) == (
        "late rows update old windows",
        tmp_path / "words.yml",
        folder / "test_words.yml",
    )
    assert (first.day, first.clock, first.no_data_batches) == ("2026-03-01", "08:00", False)
    assert first.env == {"TOPIC": "words", "PORT": "9092"}
    assert [row.values for row in first.given["ads"] if isinstance(row, Row)] == [{"ad": "a", "name": "x"}]
    assert first.given["shops"] == "real"
    read = first.real["totals"]
    assert isinstance(read, ReadStep)
    assert (list(first.real), first.real["counts"], first.all_real) == (["counts", "totals"], None, False)
    assert read.function == f"{folder / 'checks.py'}:totals"
    feed, restart = first.steps
    assert isinstance(feed, Feed)
    rows = feed.rows["words"]
    assert [row.values for row in rows if isinstance(row, Row)] == [
        {"at": "12:07", "word": "owl"},
        ["12:02", "cat"],
    ]
    assert feed.watermark == "11:57"
    assert isinstance(restart, Restart)
    assert (second.env, second.real, second.all_real) == ({"TOPIC": "others", "PORT": "9092"}, {}, False)
    assert (second.given, second.day, second.no_data_batches) == (
        {"ads": [], "shops": "real"},
        "2026-03-01",
        True,
    )
    [more] = second.steps
    assert isinstance(more, Feed)
    assert [row.values for row in more.rows["words"] if isinstance(row, Row)] == [{"word": "owl"}, ["cat"]]


def test_places(write: Write) -> None:
    test = steps_of(
        write,
        """
        - feed:
            words:
              - {word: owl}
              - [cat]
        - crash
        """,
    )
    [feed, crash] = test.steps
    assert test.place is not None
    assert feed.place is not None
    assert crash.place is not None
    assert (test.place.line, feed.place.line, crash.place.line) == (3, 4, 8)
    assert isinstance(feed, Feed)
    places = [row.place for row in feed.rows["words"] if isinstance(row, Row)]
    assert [place.line for place in places if place] == [6, 7]


def test_what_is_not_said_is_left_to_the_player(write: Write) -> None:
    test = steps_of(write, "- feed: {words: []}")
    assert (test.day, test.clock, test.no_data_batches, test.given, test.env) == (None, None, None, {}, {})
    [step] = test.steps
    assert (step.expect, step.state, step.fails) == ({}, {}, None)
    assert (step.watermark, step.late, step.idle) == (UNSAID, UNSAID, UNSAID)


def test_every_step(write: Write, tmp_path: Path) -> None:
    test = steps_of(
        write,
        """
        - advance: 2 hours
        - stop
        - start
        - crash
        - {restart: true, late: 0}
        - change_to: ../version2.yml
        - expect: {counts: []}
        """,
    )
    kinds = [Advance, Stop, Start, Crash, Restart, ChangeTo, Check]
    assert [type(step) for step in test.steps] == kinds
    advance, change = test.steps[0], test.steps[5]
    assert isinstance(advance, Advance)
    assert isinstance(change, ChangeTo)
    assert (advance.by, change.pipeline, test.steps[4].late) == ("2 hours", tmp_path / "version2.yml", 0)
    assert test.steps[6].expect == {"counts": []}


def test_every_check(write: Write) -> None:
    test = steps_of(
        write,
        """
        - {watermark: {counts: 11:57, totals: none}, late: {counts: 1}, idle: [clicks], fails: HW-STATE}
        - {watermark: none, state: {counts: 4, totals: [{key: {word: owl}, value: {count: 1}}]}}
        - {watermark: , state: {carts: {items: [{key: {user: anna}, value: {n: 1}}], seen: []}}}
        """,
    )
    one, two, three = test.steps
    assert one.watermark == {"counts": "11:57", "totals": None}
    assert (one.late, one.idle, one.fails) == ({"counts": 1}, ("clicks",), "HW-STATE")
    assert (two.watermark, three.watermark, two.state["counts"]) == (None, None, 4)
    [row] = two.state["totals"]
    assert row.values == {"key": {"word": "owl"}, "value": {"count": 1}}
    [item] = three.state["carts"]["items"]
    assert (item.values, three.state["carts"]["seen"]) == ({"key": {"user": "anna"}, "value": {"n": 1}}, [])


def test_values_are_data(write: Write) -> None:
    test = steps_of(
        write,
        """
        - feed: {x: [{a: 12:07, b: "${HOME}", c: 2026-01-01, d: 1, e: "1", f: true, g: null, h: 1.5, i: no}]}
        """,
    )
    [feed] = test.steps
    assert isinstance(feed, Feed)
    [row] = feed.rows["x"]
    assert isinstance(row, Row)
    assert row.values == {
        "a": "12:07", "b": "${HOME}", "c": "2026-01-01", "d": 1, "e": "1", "f": True, "g": None, "h": 1.5,
        "i": "no",
    }  # fmt: skip


def test_one_of_several_pipelines_in_a_python_file(write: Write, tmp_path: Path) -> None:
    [test] = loaded(write, "pipeline: ../several.py:second\ntests: {one: [restart]}\n")
    assert test.pipeline == tmp_path / "several.py:second"


def test_all_sinks_real_for_one_test(write: Write) -> None:
    text = "pipeline: ../words.yml\ntests: {one: {sinks: real, steps: [restart]}, two: [restart]}\n"
    assert [test.all_real for test in loaded(write, text)] == [True, False]


def test_several_mistakes_are_told_together(write: Write) -> None:
    text = """\
    pipelin: ../words.yml
    dya: 2026-01-01
    tests:
      one:
        - fed: {words: []}
        - restrat
        - {feed: {words: []}, restart: true}
        -
        - {}
      two:
        stps: []
        day: soon
      three: []
      four:
      five: {day: 2026-01-01}
      six: 5
    """
    assert refused(write, text) == [
        ("HW-KEY-UNKNOWN", 1),
        ("HW-KEY-UNKNOWN", 2),
        ("HW-KEY-UNKNOWN", 5),
        ("HW-TEST-UNKNOWN-STEP", 6),
        ("HW-TEST-STEP-CONFLICT", 7),
        ("HW-TEST-STEP-EMPTY", 8),
        ("HW-TEST-STEP-EMPTY", 9),
        ("HW-KEY-UNKNOWN", 11),
        ("HW-VALUE-INVALID", 12),
        ("HW-TEST-EMPTY", 13),
        ("HW-TEST-EMPTY", 14),
        ("HW-KEY-MISSING", 15),
        ("HW-VALUE-INVALID", 16),
    ]
    hints = [problem.params["hint"] for problem in problems(write, text) if problem.code == "HW-KEY-UNKNOWN"]
    assert hints == [f"Did you mean `{key}`?" for key in ("pipeline", "day", "feed", "steps")]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", [("HW-TEST-FILE-INVALID", 1)]),
        ("[1]", [("HW-TEST-FILE-INVALID", 1)]),
        ("name: p\nsources: {}\n", [("HW-TEST-FILE-INVALID", 1)]),
        ("tests: {one: [restart]}\n", [("HW-KEY-MISSING", 1)]),
        ("pipeline: ../words.yml\n", [("HW-KEY-MISSING", 1)]),
        ("pipeline: ../words.yml\ntests:\n", [("HW-TEST-EMPTY", 2)]),
        ("pipeline: ../words.yml\ntests: {}\n", [("HW-TEST-EMPTY", 2)]),
        ("pipeline: ../words.yml\ntests: [one]\n", [("HW-VALUE-INVALID", 2)]),
        ("pipeline: ../word.yml\ntests: {one: [restart]}\n", [("HW-TEST-PIPELINE-NOT-FOUND", 1)]),
        ("pipeline: ../several.pi:x\ntests: {one: [restart]}\n", [("HW-TEST-PIPELINE-NOT-FOUND", 1)]),
        ("pipeline: 5\ntests: {one: [restart]}\n", [("HW-VALUE-INVALID", 1)]),
        (
            "pipeline: ../words.yml\ntests:\n  one: [restart]\n  one: [restart]\n",
            [("HW-YAML-DUPLICATE-KEY", 4)],
        ),
        ("pipeline: ../words.yml\ntests: {one: [restart\n", [("HW-YAML-UNCLOSED", 2)]),
    ],
)
def test_files_that_are_no_tests(write: Write, text: str, codes: list[tuple[str, int]]) -> None:
    assert refused(write, text) == codes


@pytest.mark.parametrize(
    "setting",
    [
        "day: 12:07", "day: 2026-02-30", "day:", "clock: soon", "clock: 8", "env: [TOPIC]", "env: {TOPIC: }",
        "env: {TOPIC: {a: b}}", "given: real", "given: {ads: rael}", "given: {ads: 3}", "sinks: rael",
        "sinks: [counts]", "sinks: {counts: rael}", "sinks: {counts: {}}", "sinks: {counts: {read: out}}",
        "sinks: {counts: {read: 3}}", "sinks: {counts: {read: 'checks.txt:read'}}", "no_data_batches: no",
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["file", "test"])
def test_settings_of_the_wrong_kind(write: Write, setting: str, where: str) -> None:
    inner = f"    {setting}\n" if where == "test" else ""
    outer = f"{setting}\n" if where == "file" else "# \n"
    text = f"pipeline: ../words.yml\n{outer}tests:\n  one:\n{inner}    steps: [restart]\n"
    assert refused(write, text) == [("HW-VALUE-INVALID", 2 if where == "file" else 5)]


def test_functions_that_read_a_sink_are_looked_for(write: Write) -> None:
    text = """\
    pipeline: ../words.yml
    sinks:
      a: {read: "chekcs.py:totals"}
      b: {read: "checks.py:total"}
      c: {reed: "checks.py:totals"}
    tests: {one: [restart]}
    """
    assert refused(write, text) == [
        ("HW-CODE-FILE-NOT-FOUND", 3),
        ("HW-CODE-NAME-NOT-FOUND", 4),
        ("HW-KEY-UNKNOWN", 5),
    ]


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        ("- feed: [{word: owl}]", "Write `feed: {words: [{word: owl}]}`."),
        ("- feed:", "Write `feed: {words: [{word: owl}]}`."),
        ("- feed: {}", "Write `feed: {words: [{word: owl}]}`."),
        ("- feed: {words: owl}", "Write `[{word: owl, n: 1}]` or, for no rows, `[]`."),
        ("- feed: {words: }", "Write `[{word: owl, n: 1}]` or, for no rows, `[]`."),
        ("- advance: 2", "Write `advance: 2 hours`."),
        ("- advance: 2 hors", "Write `advance: 2 hours`."),
        (
            "- restart: {late: 1}",
            "Write `- restart`, or with checks `- {restart: true, expect: …}`.",
        ),
        ("- stop:", "Write `- stop`, or with checks `- {stop: true, expect: …}`."),
        ("- crash: false", "Write `- crash`, or with checks `- {crash: true, expect: …}`."),
        ("- change_to: 2", "Write `change_to: version2.yml`."),
        ("- expect: []", "Write `expect: {counts: [{word: owl, n: 1}]}`."),
        ("- watermark: soon", "Write `12:04` or, before the first watermark, `none`."),
        ("- watermark: {counts: 5}", "Write `12:04` or, before the first watermark, `none`."),
        ("- late: one", "Write `1`."),
        ("- late: -1", "Write `1`."),
        ("- late: true", "Write `1`."),
        ("- late: {counts: 1.5}", "Write `1`."),
        ("- state: 4", "Write `state: {counts: 4}`."),
        (
            "- state: {counts: many}",
            "Write `4` or `[{key: {word: owl}, value: {count: 1}}]`.",
        ),
        ("- state: {counts: [[1]]}", "Write `{key: {…}, value: {…}}` for it."),
        ("- state: {counts: {left: 1}}", "Write `[{key: {…}, value: {…}}]`."),
        ("- idle: clicks", "Write `idle: [clicks]`."),
        ("- idle: [1]", "Write `idle: [clicks]`."),
        ("- fails:", "Write `fails: words of the message`."),
    ],
)
def test_steps_with_values_of_the_wrong_kind(write: Write, step: str, hint: str) -> None:
    problem = step_problem(write, step)
    assert (problem.code, problem.params["hint"]) == ("HW-VALUE-INVALID", hint)
    assert problem.place
    assert problem.place.line == 4


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("resart", "Did you mean `restart`?"),
        ("feed", "Give it a value: write `- feed: {words: [{word: owl}]}`."),
        ("expect", "Give it a value: write `- expect: …`."),
        (
            "xyzzy",
            "Use one of restart, stop, start, crash, or a mapping: `feed: {words: [{word: owl}]}`.",
        ),
    ],
)
def test_words_that_are_no_step(write: Write, word: str, hint: str) -> None:
    problem = step_problem(write, f"- {word}")
    assert (problem.code, problem.params) == ("HW-TEST-UNKNOWN-STEP", {"word": word, "hint": hint})


def test_two_actions_are_both_named(write: Write) -> None:
    problem = step_problem(write, "- {advance: 1 hour, restart: true}")
    assert problem.params == {"first": "advance", "second": "restart"}


@pytest.mark.parametrize(
    ("step", "where", "kind"),
    [
        ("- feed: {words: [owl]}", "`feed` to `words`", "`owl`"),
        ("- feed: {words: [null]}", "`feed` to `words`", "nothing"),
        ("- expect: {counts: [3]}", "`expect` of `counts`", "`3`"),
        ("- state: {counts: [3]}", "`state` of `counts`", "`3`"),
    ],
)
def test_rows_that_are_none(write: Write, step: str, where: str, kind: str) -> None:
    problem = step_problem(write, step)
    assert (problem.code, problem.params) == ("HW-TEST-ROW-INVALID", {"where": where, "kind": kind})


def test_files_of_rows_that_are_not_there(write: Write) -> None:
    problem = step_problem(write, "- feed: {words: mor.jsonl}")
    assert (problem.code, problem.params["where"]) == ("HW-TEST-ROW-FILE-NOT-FOUND", "`feed` to `words`")
    assert str(problem.params["hint"]).endswith("Did you mean `more.jsonl`?")
    problem = step_problem(write, "- expect: {counts: rows/some.csv}")
    assert "does not exist" in str(problem.params["hint"])


def test_a_file_of_rows_with_a_mistake_is_told_at_its_own_line(write: Write, tmp_path: Path) -> None:
    (tmp_path / "tests" / "more.jsonl").write_text('{"word": "owl"}\n{"word": \n', encoding="utf-8")
    problem = step_problem(write, "- feed: {words: more.jsonl}")
    assert problem.place
    assert (Path(problem.place.file).name, problem.place.line) == ("more.jsonl", 2)


def test_a_new_version_that_is_not_there(write: Write) -> None:
    problem = step_problem(write, "- change_to: ../version3.yml")
    assert problem.code == "HW-TEST-PIPELINE-NOT-FOUND"
    assert str(problem.params["hint"]).endswith("Did you mean `../version2.yml`?")


def test_a_file_that_is_too_long_says_where_rows_go(write: Write) -> None:
    rows = ", ".join("[1]" for _ in range(10_000))
    [problem] = problems(write, f"pipeline: ../words.yml\ntests: {{one: [{{feed: {{words: [{rows}]}}}}]}}\n")
    assert (problem.code, problem.params["limit"]) == ("HW-TEST-FILE-TOO-LARGE", "10,000 values")
