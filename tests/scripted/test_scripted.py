"""The steps of scripted tests on real Spark: what each does, what it covers, what it finds."""

from __future__ import annotations

import os
import time
from pathlib import Path
from textwrap import dedent

import pytest

from headwater.testing.report import report
from headwater.testing.results import TestResult
from headwater.testing.test_runner import TestRunner
from tests.scripted.plays import play_here

PIPELINE = """
name: words
sources:
  words:
    connector: files
    path: nowhere/
    format: json
    schema: {at: timestamp, word: string}
    watermark: {column: at, delay: 10 minutes}
  kinds: {connector: files, path: nowhere/, format: csv, schema: {word: string, kind: string}, static: true}
tables:
  loud: SELECT upper(word) AS word FROM words
  seen: SELECT word, current_timestamp() AS at FROM words
  noisy: {python: "noise.py:noisy"}
  kinds_of: SELECT word, kind FROM words LEFT JOIN kinds USING (word)
  counts: SELECT word, count(*) AS n FROM words GROUP BY word
  closed: SELECT window.start AS start, count(*) AS n FROM words GROUP BY window(at, '10 minutes')
  unique: {reads: words, deduplicate: [at, word]}
  twice: SELECT a.word FROM unique a JOIN words b ON a.word = b.word AND a.at = b.at
sinks:
  appended: {reads: loud, connector: foreach_batch, function: "out.py:append"}
  once: {reads: loud, connector: foreach_batch, function: "out.py:once"}
  files: {reads: loud, connector: files, path: out/, format: json}
  seen: {reads: seen, connector: memory}
  noisy: {reads: noisy, connector: memory}
  kinds_of: {reads: kinds_of, connector: memory}
  counts: {reads: counts, connector: memory, mode: update}
  all_counts: {reads: counts, connector: memory, mode: complete}
  closed: {reads: closed, connector: memory}
  twice: {reads: twice, connector: memory}
"""
OUT = """
import os
from pathlib import Path


def file():
    return Path(os.environ["HEADWATER_TEST_DIR"]) / "words.txt"


def append(batch, batch_id):
    with file().open("a") as target:
        target.writelines(row.word + "\\n" for row in batch.collect())


def read(spark):
    return spark.createDataFrame([(word,) for word in file().read_text().split()], "word string")


def once(batch, batch_id):
    seen = file().with_name(str(batch_id))
    if seen.exists():
        raise ValueError("it comes again")
    seen.touch()
"""
NOISE = """
import random

from pyspark.sql.functions import udf


def noisy(words):
    drawn = udf(lambda: random.random(), "double").asNondeterministic()
    return words.select("word", drawn().alias("drawn"))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    (folder / "out.py").write_text(OUT, encoding="utf-8")
    (folder / "noise.py").write_text(NOISE, encoding="utf-8")
    return folder


def played(player: TestRunner, project: Path, steps: str, settings: str = "") -> TestResult:
    tests = f"{settings}tests:\n  it:\n" + "".join(f"    {line}\n" for line in dedent(steps).splitlines())
    return play_here(player, project, PIPELINE, tests)["it"]


def passes(player: TestRunner, project: Path, steps: str, settings: str = "") -> TestResult:
    result = played(player, project, steps, settings)
    assert result.passed, "\n".join(report(result, verbose=True))
    return result


def test_a_feed_covers_its_data_batch_and_the_no_data_batch_after_it(
    player: TestRunner, project: Path
) -> None:
    result = passes(
        player,
        project,
        """
        - feed: {words: [[12:01, owl], [12:09, cat]]}
          expect: {closed: []}
          watermark: 11:59
        - feed: {words: [[12:25, owl]]}
          expect: {closed: [[12:00, 2]]}
          watermark: 12:15
          state: {closed: 1}
        - feed: {words: [[12:02, owl]]}
          expect: {closed: []}
          late: 1
        """,
    )
    ids = [[batch.id for batch in step.batches["closed"]] for step in result.steps]
    assert ids == [[0, 1], [2, 3], [4]]
    assert [batch.rows_in for batch in result.steps[1].batches["closed"]] == [{"words": 1}, {}]


def test_without_no_data_batches_a_window_waits_for_the_next_feed(player: TestRunner, project: Path) -> None:
    passes(
        player,
        project,
        """
        - feed: {words: [[12:01, owl]]}
        - feed: {words: [[12:25, owl]]}
          expect: {closed: []}
          watermark: 12:15
        - feed: {words: [[12:26, owl]]}
          expect: {closed: [[12:00, 1]]}
        """,
        "no_data_batches: false\n",
    )


def test_modes_decide_what_is_expected_and_a_check_alone_looks_back(
    player: TestRunner, project: Path
) -> None:
    passes(
        player,
        project,
        """
        - feed: {words: [[12:01, owl], [12:02, cat]]}
        - expect: {counts: [[owl, 1], [cat, 1]], all_counts: [[owl, 1], [cat, 1]]}
        - feed: {words: [[12:03, owl]]}
          expect: {counts: [[owl, 2]], all_counts: [[owl, 2], [cat, 1]]}
          state: {counts: [{key: {word: owl}, value: {count: 2}}, {key: {word: cat}, value: {count: 1}}]}
        - restart
        - expect: {counts: [], all_counts: [[owl, 2], [cat, 1]]}
        """,
    )


def test_time_stands_still_and_rows_wait_while_the_queries_are_stopped(
    player: TestRunner, project: Path
) -> None:
    passes(
        player,
        project,
        """
        - feed: {words: [[12:01, owl]]}
          expect: {seen: [[owl, 08:00]]}
        - stop
        - advance: 90 minutes
        - feed: {words: [[12:02, cat]]}
          expect: {seen: []}
        - feed: {words: [[12:03, dog]]}
        - start
        - expect: {seen: [[cat, 09:30], [dog, 09:30]]}
        """,
        "clock: 08:00\n",
    )


def test_static_sources_are_given(player: TestRunner, project: Path) -> None:
    passes(
        player,
        project,
        "- feed: {words: [[12:01, owl], [12:02, cat]]}\n  expect: {kinds_of: [[owl, bird], [cat, null]]}\n",
        "given: {kinds: [[owl, bird]]}\n",
    )
    (missing,) = played(player, project, "- expect: {kinds_of: []}\n").problems
    assert (missing.code, missing.params["name"]) == ("HW-TEST-ROWS-MISSING", "kinds")


@pytest.mark.feature("H1.2", part="the same batch, time and rows again")
def test_a_crash_runs_the_data_batch_again_with_the_same_time(player: TestRunner, project: Path) -> None:
    result = passes(
        player,
        project,
        """
        - feed: {words: [[12:01, owl]]}
          expect: {seen: [[owl, 00:00]]}
        - crash
        - feed: {words: [[12:02, cat]]}
          expect: {seen: [[cat, 00:00]]}
        - advance: 1 hour
        - crash
        - expect: {seen: [[cat, 00:00]]}
        """,
    )
    (again,) = result.steps[1].batches["seen"]
    assert (again.id, again.retried, again.rows_in) == (0, True, {"words": 1})


def test_a_sink_that_repeats_a_replayed_batch_is_found(player: TestRunner, project: Path) -> None:
    steps = """
        - feed: {words: [[12:01, owl]]}
        - crash
        - expect: {appended: [[OWL]]}
    """
    result = played(player, project, steps, 'sinks: {appended: {read: "out.py:read"}}\n')
    (failure,) = result.steps[2].failures
    assert failure.diff is not None
    assert (failure.sink, failure.diff.unexpected, failure.diff.same) == ("appended", ({"word": "OWL"},), 1)


def test_a_function_that_gives_other_rows_on_replay_is_found(player: TestRunner, project: Path) -> None:
    result = played(
        player, project, "- feed: {words: [[12:01, owl]]}\n- crash\n- expect: {noisy: []}\n".lstrip()
    )
    (failure,) = result.steps[1].failures
    assert (failure.kind, failure.sink) == ("retry", "noisy")


def test_a_real_sink_keeps_its_promise_and_nothing_outside_the_test_is_written(
    player: TestRunner, project: Path
) -> None:
    passes(
        player,
        project,
        """
        - feed: {words: [[12:01, owl]]}
          expect: {files: [[OWL]]}
        - crash
        - feed: {words: [[12:02, cat]]}
          expect: {files: [[OWL], [CAT]]}
        """,
        "sinks: {files: real}\n",
    )
    assert not (project / "out").exists()


def test_another_version_goes_on_and_what_does_not_fit_fails(player: TestRunner, project: Path) -> None:
    grouped = PIPELINE.replace("word, count(*) AS n FROM words GROUP BY word", "{}")
    more = grouped.replace("{}", "word, count(*) * 10 AS n FROM words GROUP BY word", 1)
    other = grouped.replace("{}", "word, max(at) AS n FROM words GROUP BY word", 1)
    (project / "more.yml").write_text(more, encoding="utf-8")
    (project / "other.yml").write_text(other, encoding="utf-8")
    passes(
        player,
        project,
        """
        - feed: {words: [[12:01, owl]]}
          expect: {counts: [[owl, 1]]}
        - change_to: more.yml
        - feed: {words: [[12:02, owl]]}
          expect: {counts: [[owl, 20]]}
        - change_to: other.yml
        - feed: {words: [[12:03, owl]]}
          fails: HW-QUERY-FAILED
        - change_to: more.yml
        - feed: {words: [[12:04, owl]]}
          expect: {counts: [[owl, 40]]}
        """,
    )


def test_a_failure_tells_what_was_expected_and_sparks_own_word(player: TestRunner, project: Path) -> None:
    broken = PIPELINE.replace("SELECT upper(word) AS word", "SELECT string(1 / (length(word) - 3)) AS word")
    (project / "division.yml").write_text(broken, encoding="utf-8")
    steps = """
        - change_to: division.yml
        - feed: {words: [[12:01, owl]]}
          fails: FAILS
        - stop
    """
    settings = "sinks: {files: real}\n"
    result = played(player, project, steps.replace("FAILS", "OVERFLOW"), settings)
    (failure,) = result.steps[1].failures
    assert "DIVIDE_BY_ZERO" in failure.message
    assert failure.message.endswith("Expected to fail with: OVERFLOW")
    right = played(player, project, steps.replace("FAILS", "DIVIDE_BY_ZERO"), settings)
    assert [step.failures for step in right.steps] == [(), ()]
    assert [problem.code for problem in right.problems] == ["HW-TEST-NOT-RUNNING"]


def test_parts_of_a_state_are_named(player: TestRunner, project: Path) -> None:
    for wanted in ("[]", '{"3": []}', "{left: []}"):
        settled = played(
            player,
            project,
            f"- feed: {{words: [[12:01, owl]]}}\n- state: {{twice: {wanted}}}\n",
        )
        assert [problem.code for problem in settled.problems] == ["HW-TEST-STATE-AMBIGUOUS"], wanted
    joined = '{"0 left": [], "0 right": []}'
    result = played(player, project, f"- feed: {{words: [[12:01, owl]]}}\n- state: {{twice: {joined}}}\n")
    assert [failure.kind for failure in result.steps[1].failures] == ["state", "state"]
    passes(player, project, "- state: {twice: []}\n- expect: {twice: []}\n")


def test_a_query_that_fails_unexpectedly_ends_the_test(player: TestRunner, project: Path) -> None:
    broken = PIPELINE.replace("SELECT upper(word) AS word", "SELECT raise_error(word) AS word")
    (project / "broken.yml").write_text(broken, encoding="utf-8")
    result = played(
        player,
        project,
        """
        - change_to: broken.yml
        - feed: {words: [[12:01, owl]]}
        - feed: {words: [[12:02, cat]]}
          expect: {files: []}
        """,
    )
    assert result.outcome == "failed"
    assert [failure.kind for step in result.steps for failure in step.failures] == ["query"]
    assert len(result.steps) == 2


@pytest.mark.parametrize(
    ("steps", "code", "line"),
    [
        ("- feed: {word: [[12:01, owl]]}\n  expect: {seen: []}", "HW-TEST-NAME-NOT-FOUND", 4),
        ("- feed: {kinds: [[owl, bird]]}\n  expect: {seen: []}", "HW-TEST-FEED-STATIC", 4),
        ("- feed: {words: [[12:01, owl]]}\n  expect: {sen: []}", "HW-TEST-NAME-NOT-FOUND", 4),
        (
            "- feed:\n    words:\n      - [12:01, owl]\n      - [noon, owl]\n  expect: {seen: []}",
            "HW-TEST-ROW-MISMATCH",
            7,
        ),
        ("- feed: {words: [[12:01, owl]]}\n  expect: {counts: [[owl, many]]}", "HW-TEST-ROW-MISMATCH", 5),
        ("- start\n- expect: {seen: []}", "HW-TEST-ALREADY-RUNNING", 4),
        ("- stop\n- crash\n- expect: {seen: []}", "HW-TEST-NOT-RUNNING", 5),
        ("- expect: {appended: []}", "HW-TEST-SINK-UNREADABLE", 4),
    ],
)
def test_what_can_not_be_played_is_refused_at_its_line(
    player: TestRunner, project: Path, steps: str, code: str, line: int
) -> None:
    settings = "sinks: real\n" if "SINK-UNREADABLE" in code else ""
    result = played(player, project, steps, settings)
    (problem,) = result.problems
    assert problem.place is not None
    assert (result.outcome, problem.code) == ("error", code)
    if "NAME-NOT-FOUND" in code:
        assert problem.params["kind"] == {"word": "source", "sen": "sink"}[str(problem.params["name"])]
    assert problem.place.line == line + len(settings.splitlines())


def test_what_a_step_expects_besides_a_failure_is_checked(player: TestRunner, project: Path) -> None:
    broken = PIPELINE.replace("SELECT upper(word) AS word", "SELECT raise_error(word) AS word")
    (project / "broken.yml").write_text(broken, encoding="utf-8")
    result = played(
        player,
        project,
        """
        - feed: {words: [[12:00, ant]]}
        - change_to: broken.yml
        - feed: {words: [[12:01, owl]]}
          fails: owl
          expect: {counts: [[owl, 2]]}
        - feed: {words: [[12:02, owl]]}
          expect: {counts: [[owl, 2]]}
        - expect: {files: []}
        """,
    )
    (failure,) = result.steps[2].failures
    assert (failure.kind, failure.sink) == ("rows", "counts")
    assert result.steps[3].failures == ()
    (problem,) = result.problems
    assert (problem.code, problem.params["name"]) == ("HW-TEST-QUERY-FAILED", "files")


def test_a_crash_hits_only_the_queries_that_were_in_a_batch(player: TestRunner, project: Path) -> None:
    two = PIPELINE.replace("  kinds:", "  others: {connector: rate}\n  kinds:", 1).replace(
        "  seen: {reads: seen,", "  others: {reads: others, connector: memory}\n  seen: {reads: seen,", 1
    )
    tests = """tests:
  it:
    - feed: {words: [[12:00, owl]]}
      expect: {files: [[OWL]]}
    - feed: {others: [[12:00, 1]]}
      expect: {files: [], others: [[12:00, 1]]}
    - crash
    - expect: {files: [], others: [[12:00, 1]]}
"""
    result = play_here(player, project, two, tests)["it"]
    assert result.passed, "\n".join(report(result, verbose=True))


def test_a_failure_of_the_batch_that_runs_again_is_the_crash_steps(player: TestRunner, project: Path) -> None:
    result = passes(
        player,
        project,
        """
        - feed: {words: [[12:01, owl]]}
        - {crash: true, fails: comes again}
        """,
        'sinks: {once: {read: "out.py:read"}}\n',
    )
    assert [step.text for step in result.steps] == ["feed 1 to words, checked after the crash", "crash"]
    steps = "- feed: {words: [[12:01, owl]]}\n  expect: {once: [[OWL]]}\n- crash\n"
    unexpected = played(player, project, steps, 'sinks: {once: {read: "out.py:read"}}\n')
    assert [[failure.kind for failure in step.failures] for step in unexpected.steps] == [[], ["query"]]
    assert unexpected.problems == ()


def test_rows_that_were_fed_before_fit_the_columns_of_a_new_version(
    player: TestRunner, project: Path
) -> None:
    fewer = """
name: words
sources:
  words:
    connector: files
    path: nowhere/
    format: json
    schema: {at: timestamp}
    watermark: {column: at, delay: 10 minutes}
tables:
  closed: SELECT window.start AS start, count(*) AS n FROM words GROUP BY window(at, '10 minutes')
sinks:
  closed: {reads: closed, connector: memory}
"""
    (project / "fewer.yml").write_text(fewer, encoding="utf-8")
    passes(
        player,
        project,
        """
        - feed: {words: [[12:01, owl]]}
          expect: {closed: []}
        - change_to: fewer.yml
        - feed: {words: [[12:25]]}
          expect: {closed: [[12:00, 1]]}
        """,
    )


def test_a_read_that_fails_is_told_and_the_next_test_goes_on(player: TestRunner, project: Path) -> None:
    (project / "bad_read.py").write_text("def read(spark):\n    return {}['nothing']\n", encoding="utf-8")
    (project / "no_frame.py").write_text("def read(spark):\n    return [1]\n", encoding="utf-8")
    wrong = {"bad_read.py": "KeyError: 'nothing'", "no_frame.py": "it returned list, expected a DataFrame"}
    for file, says in wrong.items():
        settings = f'sinks: {{appended: {{read: "{file}:read"}}}}\n'
        result = played(player, project, "- expect: {appended: []}\n", settings)
        (problem,) = result.problems
        assert (problem.code, problem.params["says"]) == ("HW-TEST-SINK-READ-FAILED", says)
    passes(player, project, "- feed: {words: [[12:01, owl]]}\n  expect: {counts: [[owl, 1]]}\n")


def test_a_function_that_does_not_return_is_given_up(project: Path, player: TestRunner) -> None:
    (project / "slow.py").write_text(
        "import threading\n\nGO = threading.Event()\n\n\ndef write(batch, batch_id):\n    GO.wait(60)\n",
        encoding="utf-8",
    )
    slow = """
name: slow
sources:
  words: {connector: files, path: nowhere/, format: json, schema: {word: string}}
sinks:
  out: {reads: words, connector: foreach_batch, function: "slow.py:write"}
"""
    impatient = TestRunner(limit=5)
    tests = 'sinks: {out: {read: "out.py:read"}}\ntests:\n  it:\n    - feed: {words: [[owl]]}\n'
    began = time.monotonic()
    result = play_here(impatient, project, slow, tests)["it"]
    assert time.monotonic() - began < 40
    assert [problem.code for problem in result.problems] == ["HW-TEST-BATCH-TIMEOUT"]
    impatient.close()


def test_the_pipelines_own_setting_decides_about_no_data_batches(player: TestRunner, project: Path) -> None:
    quiet = PIPELINE + 'spark: {spark.sql.streaming.noDataMicroBatches.enabled: "false"}\n'
    steps = """
    - feed: {words: [[12:01, owl]]}
    - feed: {words: [[12:25, owl]]}
      expect: {closed: EXPECTED}
"""
    own = play_here(player, project, quiet, f"tests:\n  it:{steps.replace('EXPECTED', '[]')}")["it"]
    assert own.passed, "\n".join(report(own))
    said = f"no_data_batches: true\ntests:\n  it:{steps.replace('EXPECTED', '[[12:00, 1]]')}"
    assert play_here(player, project, quiet, said)["it"].passed


def test_variables_of_a_test_stay_with_it(player: TestRunner, project: Path) -> None:
    pipeline = """
name: vars
sources:
  words: {connector: files, path: nowhere/, format: json, schema: {word: string}}
tables:
  said: SELECT word, '${GREETING:-none}' AS said FROM words
sinks:
  said: {reads: said, connector: memory}
"""
    tests = """tests:
  one:
    env: {GREETING: hello}
    steps: [{feed: {words: [[owl]]}, expect: {said: [[owl, hello]]}}]
  two:
    - {feed: {words: [[owl]]}, expect: {said: [[owl, none]]}}
"""
    results = play_here(player, project, pipeline, tests)
    assert {name: result.outcome for name, result in results.items()} == {"one": "passed", "two": "passed"}
    assert "GREETING" not in os.environ


REAL_SINKS = """
name: real
sources:
  words: {connector: files, path: nowhere/, format: json, schema: {word: string}}
sinks:
  table: {reads: words, connector: memory}
  own:
    reads: words
    connector: python
    class: "kept.py:Kept"
    options: {folder: "${HEADWATER_TEST_DIR}"}
"""
KEPT = """
import os
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage


class Kept(DataSource):
    @classmethod
    def name(cls):
        return "kept"

    def streamWriter(self, schema, overwrite):
        return Writer(self.options["folder"])


class Writer(DataSourceStreamWriter):
    def __init__(self, folder):
        self.folder = folder

    def write(self, iterator):
        for row in iterator:
            (Path(self.folder) / row.word).touch()
        return WriterCommitMessage()

    def commit(self, messages, batchId):
        pass

    def abort(self, messages, batchId):
        pass


def read(spark):
    names = [(name,) for name in os.listdir(os.environ["HEADWATER_TEST_DIR"])]
    return spark.createDataFrame(names, "word string")
"""


def test_python_sinks_are_kept_real_and_memory_sinks_are_captured_all_the_same(
    player: TestRunner, tmp_path: Path
) -> None:
    (tmp_path / "kept.py").write_text(KEPT, encoding="utf-8")
    tests = """sinks: {table: real, own: {read: "kept.py:read"}}
tests:
  it:
    - feed: {words: [[owl]]}
      expect: {table: [[owl]], own: [[owl]]}
    - feed: {words: [[cat]]}
      expect: {table: [[cat]], own: [[owl], [cat]]}
"""
    result = play_here(player, tmp_path, REAL_SINKS, tests)["it"]
    assert result.passed, "\n".join(report(result))
