"""Classes that a pipeline names, told from their text or from themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.errors import PipelineError
from headwater.loaders.user_files import class_ref_problems, declared_class
from headwater.spec import ClassRef, Method
from headwater.spec.pipeline import class_of
from headwater.values import Position

METHODS = (
    Method("open", ("partition_id", "epoch_id"), required=False),
    Method("process", ("row",)),
)
CODE = """
from elsewhere import Far
import abc

class Good:
    def __init__(self, size=3, *, name="x"): ...
    def open(self, partition_id, epoch_id): ...
    def process(self, row): ...

class Child(Good): ...

class Assigned:
    process = print

class Wants:
    def __init__(self, path, *, name): ...
    def process(self, row): ...

class Lacks:
    def open(self, partition_id): ...

class Static:
    @staticmethod
    def process(row): ...

class Outer:
    class Inner:
        def process(self, row, more): ...

def function(): ...

Alias = Good
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "out.py"
    path.write_text(CODE)
    return path


def line(text: str) -> int:
    return CODE.splitlines().index(text) + 1


@pytest.mark.parametrize("name", ["Good", "Child", "Assigned", "Static", "Far", "Alias"])
def test_what_may_be_right_is_not_refused(file: Path, name: str) -> None:
    assert list(class_ref_problems(ClassRef(str(file), name), METHODS, None)) == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (
            "Wants",
            [
                (
                    "HW-CLASS-NEEDS-ARGUMENTS",
                    "    def __init__(self, path, *, name): ...",
                    {"needs": "path, name"},
                )
            ],
        ),
        (
            "Lacks",
            [
                (
                    "HW-FUNCTION-ARGUMENTS",
                    "    def open(self, partition_id): ...",
                    {"function": "Lacks.open"},
                ),
                ("HW-CLASS-METHOD-MISSING", "class Lacks:", {"method": "process", "takes": "self, row"}),
            ],
        ),
        (
            "Outer.Inner",
            [("HW-FUNCTION-ARGUMENTS", "        def process(self, row, more): ...", {"passed": "self, row"})],
        ),
    ],
)
def test_what_is_certainly_wrong_is_told_at_its_line(
    file: Path, name: str, found: list[tuple[str, str, dict[str, Any]]]
) -> None:
    problems = list(class_ref_problems(ClassRef(str(file), name), METHODS, None))
    assert [problem.code for problem in problems] == [code for code, _, _ in found]
    for problem, (_, text, params) in zip(problems, found, strict=True):
        assert problem.place is not None
        assert (problem.place.file, problem.place.line) == (str(file), line(text))
        assert params.items() <= problem.params.items()


def test_a_name_that_is_no_class(file: Path) -> None:
    place = Position("pipeline.yml", 3, 5)
    with pytest.raises(PipelineError) as caught:
        declared_class(file, "Goood", place)
    (problem,) = caught.value.problems
    assert (problem.code, problem.place, str(problem.params["known"]).split(", ")[0]) == (
        "HW-PYTHON-CLASS-MISSING",
        place,
        "Good",
    )
    (problem,) = class_ref_problems(ClassRef(str(file), "function"), METHODS, place)
    assert (problem.code, problem.params["kind"]) == ("HW-NOT-A-CLASS", "a function")


class Right:
    def process(self, row: object) -> None: ...


class Wrong:
    open = 3

    def __init__(self, path: str) -> None: ...

    def process(self) -> None: ...


def test_a_class_at_hand_is_asked_itself() -> None:
    ref = class_of(Right)
    assert (ref.name, ref.file, list(class_ref_problems(ref, METHODS, None))) == ("Right", __file__, [])
    problems = list(class_ref_problems(class_of(Wrong), METHODS, None))
    assert [problem.code for problem in problems] == [
        "HW-CLASS-NEEDS-ARGUMENTS",
        "HW-CLASS-METHOD-MISSING",
        "HW-FUNCTION-ARGUMENTS",
    ]
    assert {problem.place for problem in problems} == {class_of(Wrong).defined}
