"""Pipelines told from plain programs, and classes that a pipeline names, by their text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.errors import PipelineError
from headwater.loaders.user_files import class_ref_problems, declared_class, declares_pipeline
from headwater.spec import ClassRef, Method
from headwater.spec.references import class_of
from headwater.values import Position

PIPELINES = {
    "package": "import headwater as hw\np = hw.Pipeline('p')\n",
    "plain name": "import headwater\np = headwater.Pipeline('p')\n",
    "class": "from headwater import Pipeline\np = Pipeline('p')\n",
    "renamed": "from headwater import Pipeline as Stream\nmade = [Stream('p')]\n",
    "its module": "from headwater.api.pipeline import Pipeline\np = Pipeline('p')\n",
    "in a function": "import headwater as hw\ndef make():\n    return hw.Pipeline('p')\np = make()\n",
    "beside": "from beside import p\n",
    "in a package beside": "import inner.beside as b\np = b.p\n",
    "relative": "from .beside import p\n",
}
PROGRAMS = {
    "nothing": "",
    "plain": "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n",
    "another Pipeline": "from pyspark.ml import Pipeline\nimport headwater as hw\nPipeline()\nhw.check(1)\n",
    "only imported": "from headwater import Pipeline\n",
    "circle": "import circle\n",
    "not beside": "import elsewhere\n",
}


def written(folder: Path, text: str) -> Path:
    for file in (folder / "beside.py", folder / "inner" / "beside.py"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(PIPELINES["package"], encoding="utf-8")
    (folder / "circle.py").write_text("import job\n", encoding="utf-8")
    file = folder / "job.py"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline(tmp_path: Path, name: str) -> None:
    assert declares_pipeline(written(tmp_path, PIPELINES[name]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(tmp_path: Path, name: str) -> None:
    assert not declares_pipeline(written(tmp_path, PROGRAMS[name]))


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as error:
        declares_pipeline(written(tmp_path, "a = (\n"))
    assert [problem.code for problem in error.value.problems] == ["HW-CODE-SYNTAX"]


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
                    "HW-FUNCTION-ARGUMENTS-MISMATCH",
                    "    def open(self, partition_id): ...",
                    {"function": "Lacks.open"},
                ),
                ("HW-CLASS-METHOD-MISSING", "class Lacks:", {"method": "process", "takes": "self, row"}),
            ],
        ),
        (
            "Outer.Inner",
            [
                (
                    "HW-FUNCTION-ARGUMENTS-MISMATCH",
                    "        def process(self, row, more): ...",
                    {"passed": "self, row"},
                )
            ],
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
        "HW-CODE-NAME-NOT-FOUND",
        place,
        "Good",
    )
    (problem,) = class_ref_problems(ClassRef(str(file), "function"), METHODS, place)
    assert (problem.code, problem.params["kind"]) == ("HW-CODE-NAME-INVALID", "a function")


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
        "HW-FUNCTION-ARGUMENTS-MISMATCH",
    ]
    assert {problem.place for problem in problems} == {class_of(Wrong).defined}
