"""Functions of a user's file, read from its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import PipelineError, Problem
from headwater.loaders.python_functions import declared_function, function_parameters
from headwater.values.positions import Position

PLACE = Position("pipeline.yml", 12, 3)


def file_with(folder: Path, text: str) -> Path:
    file = folder / "alerts.py"
    file.write_text(text, encoding="utf-8")
    return file


def problem(file: Path, name: str) -> Problem:
    with pytest.raises(PipelineError) as error:
        declared_function(file, name, PLACE)
    (only,) = error.value.problems
    return only


@pytest.mark.parametrize(
    ("text", "name", "parameters", "line"),
    [
        ("def f(): ...\n", "f", (), 1),
        (
            "raise SystemExit\n\n@deco\ndef f(priced, other: int = 3, *, last): ...\n",
            "f",
            ("priced", "other", "last"),
            4,
        ),
        ("class A:\n    class B:\n        @staticmethod\n        def f(x): ...\n", "A.B.f", ("x",), 4),
        ("if True:\n    def f(x): ...\nelse:\n    f = None\ndef f(y): ...\n", "f", ("y",), 5),
        ("try:\n    import a\nexcept ImportError:\n    def f(z): ...\n", "f", ("z",), 4),
    ],
)
def test_parameters_and_line(
    tmp_path: Path, text: str, name: str, parameters: tuple[str, ...], line: int
) -> None:
    file = file_with(tmp_path, text)
    found = declared_function(file, name)
    assert (found.parameters, found.position.line) == (parameters, line)
    assert function_parameters(file, name) == parameters


@pytest.mark.parametrize(
    ("signature", "parameter"),
    [("*tables", "`*tables`"), ("a, **tables", "`**tables`"), ("a, /, b", "`a` by its place only")],
)
def test_parameters_without_a_name(tmp_path: Path, signature: str, parameter: str) -> None:
    file = file_with(tmp_path, f"\ndef f({signature}): ...\n")
    found = problem(file, "f")
    assert (found.code, found.place) == ("HW-FUNCTION-PARAMETER-KINDS", Position(str(file), 2))
    assert found.params == {"function": "f", "parameter": parameter}


@pytest.mark.parametrize(
    "text",
    ["from lib import f\n", "f = make()\n", "f: object = make()\n", "async def f(): ...\n", "class f: ...\n"],
)
def test_a_name_that_is_no_def(tmp_path: Path, text: str) -> None:
    found = problem(file_with(tmp_path, text), "f")
    assert (found.code, found.place) == ("HW-FUNCTION-NOT-DEFINED-HERE", PLACE)


def test_a_missing_function_names_the_nearest_first(tmp_path: Path) -> None:
    file = file_with(tmp_path, "def zebra(): ...\ndef alerts(): ...\nclass A: ...\n")
    found = problem(file, "alrets")
    assert (found.code, found.place) == ("HW-FUNCTION-MISSING", PLACE)
    assert found.params == {"file": str(file), "function": "alrets", "known": "alerts, zebra"}
    assert problem(file, "B.f").code == "HW-FUNCTION-MISSING"


def test_a_missing_file_names_the_nearest_first(tmp_path: Path) -> None:
    file_with(tmp_path, "")
    (tmp_path / "zebra.py").touch()
    found = problem(tmp_path / "alert.py", "f")
    assert (found.code, found.place) == ("HW-CODE-FILE-MISSING", PLACE)
    assert found.params == {"file": str(tmp_path / "alert.py"), "known": "alerts.py, zebra.py"}
    assert problem(tmp_path / "nowhere" / "alert.py", "f").params["known"] == "none"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "alerts.py").mkdir()
    assert problem(tmp_path / "alerts.py", "f").code == "HW-CODE-FILE-UNREADABLE"


def test_a_syntax_error_is_told_at_its_line(tmp_path: Path) -> None:
    file = file_with(tmp_path, "def f(): ...\nif x\n")
    found = problem(file, "f")
    assert (found.code, found.place) == ("HW-CODE-SYNTAX", Position(str(file), 2, 5))
