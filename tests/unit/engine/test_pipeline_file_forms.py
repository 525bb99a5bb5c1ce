"""`hw.load`: a pipeline file as a `Pipeline`, to which a program can add."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.engine.pipeline_file import load as load_spec
from headwater.errors import PipelineError, Problem

YAML = """\
name: shop
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int}}
tables:
  large: >-
    SELECT id FROM orders
    WHERE id > 10
sinks:
  large: {reads: large, connector: files, path: out, format: json}
"""
PYTHON = """
import headwater as hw

p = hw.Pipeline("shop")
p.source("clicks", hw.rate())
p.sink("out", hw.noop(), reads="clicks")
"""


def write(folder: Path, text: str, name: str = "pipeline.yml") -> Path:
    (folder / "in").mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def problems(file: Path) -> list[Problem]:
    with pytest.raises(PipelineError) as refused:
        hw.load(file)
    return list(refused.value.problems)


def test_it_is_the_pipeline_that_a_command_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, YAML)
    pipeline = hw.load(file)
    assert isinstance(pipeline, hw.Pipeline)
    monkeypatch.chdir("/")
    assert (pipeline.name, pipeline.spec()) == ("shop", load_spec(file))
    assert pipeline.spec().root == tmp_path
    (table,) = pipeline.spec().tables
    assert table.position is not None
    assert (table.position.file, table.position.line, table.position.column) == (str(file), 5, 3)
    assert pipeline.check(offline=True) == []


def test_a_program_adds_to_it(tmp_path: Path) -> None:
    pipeline = hw.load(write(tmp_path, YAML))
    pipeline.source("refunds", hw.files(path="in", format="json", schema="id int"))
    pipeline.table("both", sql="SELECT id FROM orders UNION ALL SELECT id FROM refunds")
    pipeline.sink("both", hw.memory(), reads="both")
    spec = pipeline.spec()
    assert [source.name for source in spec.sources] == ["orders", "refunds"]
    assert [sink.name for sink in spec.sinks] == ["large", "both"]
    assert spec.sources[1].options.path == (str(tmp_path / "in"),)  # type: ignore[attr-defined]
    assert spec.sinks[1].position is not None
    assert spec.sinks[1].position.file == __file__
    # A program can query the table in memory, which a command can't.
    assert pipeline.check(offline=True) == []


@pytest.mark.parametrize("path", [__file__, "/tmp/ipykernel_1/2.py"])
def test_a_name_of_the_file_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    from headwater.loaders import python_form
    from headwater.values import Position

    monkeypatch.setattr(python_form, "caller", lambda: Position(path, 7))
    pipeline = hw.load(write(tmp_path, YAML))
    with pytest.raises(PipelineError) as refused:
        pipeline.sink("large", hw.noop(), reads="orders")
    (problem,) = refused.value.problems
    assert (problem.code, problem.params["first"]) == ("HW-NAME-CONFLICT", "a sink on line 9")


def test_what_is_wrong_is_told_at_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, YAML.replace("format: json, s", "formt: json, s"))
    (problem,) = problems(file)
    assert (problem.code, problem.place and problem.place.line) == ("HW-KEY-UNKNOWN", 3)
    file = write(tmp_path, YAML.replace("path: in", 'path: "${NOWHERE}"'))
    assert [problem.code for problem in problems(file)] == ["HW-VARIABLE-MISSING"]
    file = write(tmp_path, "name: [")
    assert [problem.place and problem.place.file for problem in problems(file)] == [str(file)]
    with pytest.raises(hw.HeadwaterError):
        hw.load(tmp_path / "nowhere.yml")


def test_sinks_and_folders_may_come_later(tmp_path: Path) -> None:
    pipeline = hw.load(write(tmp_path, YAML.partition("sinks:")[0].replace("path: in", "path: later")))
    with pytest.raises(PipelineError) as refused:
        pipeline.check(offline=True)
    assert {problem.code for problem in refused.value.problems} == {
        "HW-PIPELINE-NO-SINKS",
        "HW-SOURCE-PATH-NOT-FOUND",
    }
    (tmp_path / "later").mkdir()
    pipeline.sink("out", hw.noop(), reads="large")
    assert pipeline.check(offline=True) == []


def test_a_python_file_gives_a_pipeline_of_its_own_each_time(tmp_path: Path) -> None:
    file = write(tmp_path, PYTHON, "pipeline.py")
    first = hw.load(file)
    first.sink("more", hw.noop(), reads="clicks")
    assert [sink.name for sink in first.spec().sinks] == ["out", "more"]
    again = hw.load(f"{file}:p")
    assert (type(again), again.spec()) == (hw.Pipeline, load_spec(file))
    assert [sink.name for sink in again.spec().sinks] == ["out"]
