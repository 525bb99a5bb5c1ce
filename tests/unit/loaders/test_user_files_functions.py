"""Functions of a user's file, read from its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.errors import PipelineError, Problem
from headwater.loaders.user_files import (
    called_function,
    refuse_call,
    table_function,
    with_parameters,
)
from headwater.spec import FunctionRef
from headwater.spec.references import function_of
from headwater.values.user_frames import Position

PLACE = Position("pipeline.yml", 12, 3)


def file_with(folder: Path, text: str) -> Path:
    file = folder / "alerts.py"
    file.write_text(text, encoding="utf-8")
    return file


def problem(file: Path, name: str) -> Problem:
    with pytest.raises(PipelineError) as error:
        with_parameters(FunctionRef(str(file), name), PLACE)
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
    found = with_parameters(FunctionRef(str(file), name), None)
    assert found.defined is not None
    assert (found.parameters, found.defined.line) == (parameters, line)


@pytest.mark.parametrize(
    ("signature", "parameter"),
    [("*tables", "`*tables`"), ("a, b, **tables", "`**tables`"), ("a, /, b", "`a` by position only")],
)
def test_parameters_without_a_name(tmp_path: Path, signature: str, parameter: str) -> None:
    """Both forms refuse them for a table, which is called by names; the rest is called by place."""
    file = file_with(tmp_path, f"\ndef f({signature}): ...\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), names)
    for ref in (FunctionRef(str(file), "f"), function_of(names["f"])):
        with pytest.raises(PipelineError) as error:
            table_function(ref, PLACE, ("a", "b"))
        (found,) = error.value.problems
        assert (found.code, found.place) == ("HW-FUNCTION-PARAMETERS-UNSUPPORTED", Position(str(file), 2))
        assert found.params == {"function": "f", "parameter": parameter}
        assert with_parameters(ref, PLACE).defined == Position(str(file), 2)
        refuse_call(ref, ("batch", "batch_id"), PLACE)


def test_a_parameter_with_a_default_is_a_table_only_where_one_is_declared(tmp_path: Path) -> None:
    signature = "a, limit=5, Other=None, spark=None, *, b, last=1"
    file = file_with(tmp_path, f"def f({signature}): ...\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), names)
    for ref in (FunctionRef(str(file), "f"), function_of(names["f"])):
        found = table_function(ref, PLACE, ("spark", "a", "other"))
        assert found.parameters == ("a", "Other", "spark", "b")


@pytest.mark.parametrize(
    "text",
    ["from lib import f\n", "f = make()\n", "f: object = make()\n", "async def f(): ...\n", "class f: ...\n"],
)
def test_a_name_that_is_no_def(tmp_path: Path, text: str) -> None:
    found = problem(file_with(tmp_path, text), "f")
    assert (found.code, found.place) == ("HW-FUNCTION-DEFINED-ELSEWHERE", PLACE)


def test_a_missing_function_names_the_nearest_first(tmp_path: Path) -> None:
    file = file_with(tmp_path, "def zebra(): ...\ndef alerts(): ...\nclass A: ...\n")
    found = problem(file, "alrets")
    assert (found.code, found.place) == ("HW-CODE-NAME-NOT-FOUND", PLACE)
    assert found.params == {
        "file": str(file),
        "kind": "function",
        "name": "alrets",
        "known": "alerts, zebra",
    }
    assert problem(file, "B.f").code == "HW-CODE-NAME-NOT-FOUND"


def test_a_missing_file_names_the_nearest_first(tmp_path: Path) -> None:
    file_with(tmp_path, "")
    (tmp_path / "zebra.py").touch()
    found = problem(tmp_path / "alert.py", "f")
    assert (found.code, found.place) == ("HW-CODE-FILE-NOT-FOUND", PLACE)
    assert found.params == {"file": str(tmp_path / "alert.py"), "known": "alerts.py, zebra.py"}
    assert problem(tmp_path / "nowhere" / "alert.py", "f").params["known"] == "none"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "alerts.py").mkdir()
    assert problem(tmp_path / "alerts.py", "f").code == "HW-CODE-FILE-UNREADABLE"


def test_a_syntax_error_is_told_at_its_line(tmp_path: Path) -> None:
    file = file_with(tmp_path, "def f(): ...\nif x\n")
    found = problem(file, "f")
    assert (found.code, found.place) == ("HW-CODE-SYNTAX", Position(str(file), 2, 5))


@pytest.mark.parametrize(
    ("takes", "line"),
    [
        ("batch, batch_id", 1),
        ("batch, /, batch_id: int = 0, more=None, *, last=1, **others", 1),
        ("*arguments", 1),
        ("batch, *arguments", 1),
    ],
)
def test_a_function_that_can_be_called(takes: str, line: int, tmp_path: Path) -> None:
    file = file_with(tmp_path, f"def write({takes}): ...\n")
    assert called_function(file, "write", ("batch", "batch_id"), PLACE) == Position(str(file), line, 1)


@pytest.mark.parametrize(
    "takes", ["", "batch", "batch, *, batch_id", "batch, batch_id, more", "batch, batch_id, *, last", "**all"]
)
def test_a_function_that_can_not_be_called(takes: str, tmp_path: Path) -> None:
    file = file_with(tmp_path, f"import os\ndef write({takes}): ...\n")
    with pytest.raises(PipelineError) as error:
        called_function(file, "write", ("batch", "batch_id"), PLACE)
    (only,) = error.value.problems
    assert (only.code, only.place) == ("HW-FUNCTION-ARGUMENTS-MISMATCH", Position(str(file), 2, 1))
    count = "2 arguments"
    told = {
        "function": "write",
        "short": "write",
        "takes": takes,
        "count": count,
        "passed": "batch, batch_id",
    }
    assert only.params == told


@pytest.mark.parametrize(
    "text",
    [
        "from other import write\n",
        "write = print\n",
        "class write: ...\n",
        "@with_id\ndef write(batch): ...\n",
    ],
)
def test_what_can_not_be_told_of_a_call_is_not_told(text: str, tmp_path: Path) -> None:
    file = file_with(tmp_path, text)
    called_function(file, "write", ("batch", "batch_id"), PLACE)


def test_a_function_that_is_called_and_missing(tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as error:
        called_function(file_with(tmp_path, "def wirte(a, b): ...\n"), "write", ("a", "b"), PLACE)
    assert [(each.code, each.place) for each in error.value.problems] == [("HW-CODE-NAME-NOT-FOUND", PLACE)]
