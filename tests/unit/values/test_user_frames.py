"""Places in files, and which lines of a running program are the user's own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.values import Position, TextPosition
from headwater.values.user_frames import is_own_code, own_place, raising_place, spark_asks


@pytest.mark.parametrize(
    "file",
    ["<frozen importlib>", "/p/.venv/lib/python3.11/site-packages/x.py", headwater.__file__, json.__file__],
)
def test_code_of_others(file: str) -> None:
    assert not is_own_code(file)


@pytest.mark.parametrize("file", ["/jobs/job.py", "/home/me/pyspark/job.py", "/jobs/headwater_jobs/job.py"])
def test_own_code(file: str) -> None:
    assert is_own_code(file)


def test_code_of_a_spark_outside_of_any_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = type(sys)("pyspark")
    module.__file__ = str(tmp_path / "spark" / "python" / "pyspark" / "__init__.py")
    monkeypatch.setitem(sys.modules, "pyspark", module)
    assert not is_own_code(str(tmp_path / "spark" / "python" / "pyspark" / "sql" / "session.py"))
    assert is_own_code(str(tmp_path / "job.py"))


def test_the_innermost_own_line() -> None:
    here = os.path.abspath(__file__)
    frame = sys._getframe()
    assert own_place(frame) == Position(here, frame.f_lineno)


def test_the_line_that_raised() -> None:
    with pytest.raises(ValueError) as error:
        json.loads("{")
    place = raising_place(error.value.__traceback__)
    assert place is not None
    assert (place.file, place.line) == (os.path.abspath(__file__), error.traceback[0].lineno + 1)
    assert raising_place(None) is None


@pytest.mark.parametrize(
    ("file", "expected"),
    [(headwater.__file__, True), ("/p/site-packages/mlflow/git.py", False), ("/p/job.py", False)],
)
def test_who_asks_python_for_something(file: str, expected: bool) -> None:
    caller: dict[str, Any] = {}
    exec(compile("def ask(function): return function()", file, "exec"), caller)
    python: dict[str, Any] = {"sys": sys}
    exec(compile("def run(): return sys._getframe()", json.__file__, "exec"), python)
    assert spark_asks(caller["ask"](python["run"])) is expected


def test_a_block_text_follows_the_lines_of_the_file() -> None:
    text = TextPosition(Position("p.yml", 10, 7), follows_lines=True)
    assert text.at(1) == Position("p.yml", 10, 7)
    assert text.at(3, 4) == Position("p.yml", 12, 10)


def test_other_texts_are_known_on_their_first_line() -> None:
    text = TextPosition(Position("p.yml", 10, 7))
    assert text.at(1, 4) == Position("p.yml", 10, 10)
    assert text.at(2, 4) == Position("p.yml", 10, 7)


def test_an_inexact_text_is_known_by_its_start_only() -> None:
    text = TextPosition(Position("p.py", 10, 7), exact=False)
    assert text.at(1, 4) == Position("p.py", 10, 7)


def test_a_position_prints_as_editors_open_it() -> None:
    assert str(Position("p.yml", 3, 5)) == "p.yml:3:5"
