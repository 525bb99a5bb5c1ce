"""Pipelines told from plain programs by their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import PipelineError
from headwater.loaders.user_files import declares_pipeline

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
