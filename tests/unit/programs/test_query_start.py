"""What no two running queries of a script may share, and how a script ended."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headwater.engine.plain_facts import WriterSettings
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.programs import CONNECT_SESSION_UNSUPPORTED
from headwater.programs.query_start import Started, deadline_problem, failure_of, source_missing
from headwater.values import Position

HERE, THERE = Position("/jobs/streams.py", 7), Position("/jobs/job.py", 20)


def test_names() -> None:
    started = Started()
    written = WriterSettings("console")
    names = [started.name_of(written, places) for places in [(HERE, THERE), (HERE, THERE), (HERE,), (), ()]]
    assert names == [
        "streams.py:7",
        "streams.py:7 (2, from job.py:20)",
        "streams.py:7 (3)",
        "query",
        "query (2)",
    ]
    assert started.name_of(WriterSettings("console", name="totals"), (HERE,)) == "totals"


NAMES = {
    "CONNECT": PipelineError(CONNECT_SESSION_UNSUPPORTED.at(None)),
    "QUERY": SimpleNamespace(lastProgress=None, recentProgress=[]),
}
PARSES = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--x", required=True)
parser.parse_args([])
"""


def ended(tmp_path: Path, text: str) -> Problem | None:
    file = tmp_path / "job.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BaseException) as error:
        exec(compile(text, str(file), "exec"), dict(NAMES))
    return failure_of(error.value, "job.py", "4.1.4")


@pytest.mark.parametrize(
    ("text", "code", "line", "params"),
    [
        ("\n1 / 0\n", "HW-SCRIPT-FAILED", 2, {"error": "ZeroDivisionError: division by zero"}),
        ("raise ValueError\n", "HW-SCRIPT-FAILED", 1, {"error": "ValueError"}),
        ("raise OSError(30, 'no', 'log')\n", "HW-SCRIPT-WRITES", 1, {"path": "log"}),
        ("raise KeyboardInterrupt\n", "HW-SCRIPT-FAILED", 1, {"error": "the script was interrupted"}),
        (
            "def rows(query):\n    return query.lastProgress['numInputRows']\nrows(QUERY)\n",
            "HW-SCRIPT-NEEDS-PROGRESS",
            2,
            {"error": "TypeError: 'NoneType' object is not subscriptable"},
        ),
        (
            "QUERY.recentProgress[-1]\n",
            "HW-SCRIPT-NEEDS-PROGRESS",
            1,
            {"error": "IndexError: list index out of range"},
        ),
        ("[][0]\n", "HW-SCRIPT-FAILED", 1, {"error": "IndexError: list index out of range"}),
        ("\n\nraise CONNECT\n", "HW-CONNECT-SESSION-UNSUPPORTED", 3, {}),
    ],
)
def test_an_exception(tmp_path: Path, text: str, code: str, line: int, params: dict[str, object]) -> None:
    problem = ended(tmp_path, text)
    assert problem is not None
    assert problem.place is not None
    assert (problem.code, problem.place.file, problem.place.line) == (code, str(tmp_path / "job.py"), line)
    assert problem.params == params


@pytest.mark.parametrize("text", ["import sys\nsys.exit()\n", "raise SystemExit(0)\n"])
def test_a_good_exit(tmp_path: Path, text: str) -> None:
    assert ended(tmp_path, text) is None


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [("import sys; sys.exit(3)", 3, ""), ("import sys; sys.exit('no input.')", 1, ": no input")],
)
def test_an_exit_that_tells_of_a_failure(tmp_path: Path, text: str, code: int, says: str) -> None:
    problem = ended(tmp_path, text)
    assert problem is not None
    assert (problem.code, problem.params["code"], problem.params["says"]) == ("HW-SCRIPT-EXIT", code, says)


def test_wrong_arguments_are_asked_for_after_two_dashes(tmp_path: Path) -> None:
    problem = ended(tmp_path, PARSES)
    assert problem is not None
    assert problem.place is not None
    assert (problem.code, problem.place.line) == ("HW-SCRIPT-EXIT", 5)
    assert "headwater check job.py -- " in problem.hint


def test_the_deadline() -> None:
    here = deadline_problem(sys._getframe(), "job.py", 60)
    assert (here.code, here.params["seconds"]) == ("HW-SCRIPT-TIMEOUT", "1 minute")
    assert "it had reached this line" in here.message
    assert here.place is not None
    assert here.place.file == __file__
    nowhere = deadline_problem(None, "job.py", 1.5)
    assert (nowhere.code, nowhere.place, nowhere.params["file"]) == ("HW-SCRIPT-TIMEOUT", None, "job.py")
    assert "the line that it had reached is unknown" in nowhere.message


def test_a_source_that_comes_in_a_package() -> None:
    assert "spark-sql-kafka-0-10_2.13:4.1.4" in source_missing(None, "kafka", "4.1.4").hint
    assert "delta-spark_4.1_2.13" in source_missing(None, "DELTA", "4.1.4").hint
    assert "spark.jars" in source_missing(None, "acme", "4.1.4").hint
