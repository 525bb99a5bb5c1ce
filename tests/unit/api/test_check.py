"""Checks without Spark: as much as can be said is said together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater import console, files, foreach_batch, rate
from headwater.api import analysis
from headwater.api.check import check
from headwater.api.pipeline import Pipeline
from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError, SetupError
from headwater.errors.catalogue.environment import PLATFORM_UNSUPPORTED

BROKEN = """
name: shop
sources:
  clicks: {connector: rate, options: {key: "${secret:NO_SUCH_SECRET}"}}
  unread: {connector: rate}
tables:
  few: SELECT * FROM clikcs
  loop: SELECT * FROM loop
sinks:
  out: {reads: clicks, connector: files, path: out, format: json, mode: complete}
  call: {reads: few, connector: foreach_batch, function: "out.py:write"}
""".lstrip()


def told(file: Path) -> list[tuple[str, str, int | None]]:
    found = [finding.to_json() for finding in check(file, offline=True).findings]
    return [(each["severity"], each["code"], each["line"]) for each in found]


def pipeline(folder: Path, text: str, code: str = "def write(batch, batch_id): ...\n") -> Path:
    file = folder / "pipeline.yml"
    file.write_text(text, encoding="utf-8")
    (folder / "out.py").write_text(code, encoding="utf-8")
    return file


def test_the_graph_and_the_rules_are_told_together(tmp_path: Path) -> None:
    assert told(pipeline(tmp_path, BROKEN)) == [
        ("error", "HW-TABLE-NOT-FOUND", 6),
        ("error", "HW-TABLE-CYCLE", 7),
        ("error", "HW-SINK-MODE-UNSUPPORTED", 9),
        ("warning", "HW-SECRET-NOT-SET", 3),
    ]


def test_a_wrong_form_hides_neither_graph_nor_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pipeline(tmp_path, BROKEN.replace("unread: {", "unread: {rows: 3, "), "\ndef write(batch): ...\n")
    assert told(file) == [
        ("error", "HW-FUNCTION-ARGUMENTS-MISMATCH", 2),
        ("error", "HW-KEY-UNKNOWN", 4),
        ("error", "HW-TABLE-NOT-FOUND", 6),
        ("error", "HW-TABLE-CYCLE", 7),
        ("error", "HW-SINK-MODE-UNSUPPORTED", 9),
    ]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError) as error:
        load("pipeline.yml")
    assert [problem.location for problem in error.value.problems] == [
        "out.py:2:1",
        "pipeline.yml:4:12",
        "pipeline.yml:6:22",
        "pipeline.yml:7:3",
        "pipeline.yml:9:73",
    ]


def test_without_spark_a_full_check_says_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spark(*_: object) -> None:
        raise SetupError(PLATFORM_UNSUPPORTED.at(None, platform="x"))

    monkeypatch.setattr(analysis, "check_with_spark", no_spark)
    findings = check(pipeline(tmp_path, BROKEN)).findings
    assert [finding.problem.code for finding in findings] == [
        "HW-PLATFORM-UNSUPPORTED",
        "HW-TABLE-NOT-FOUND",
        "HW-TABLE-CYCLE",
        "HW-SINK-MODE-UNSUPPORTED",
        "HW-SECRET-NOT-SET",
    ]
    right = "name: p\nsources: {a: {connector: rate}}\nsinks: {out: {reads: a, connector: noop}}\n"
    with pytest.raises(SetupError):
        check(pipeline(tmp_path, right))


def test_the_same_in_python(tmp_path: Path) -> None:
    def write(batch: Any) -> None: ...

    p = Pipeline("shop")
    p.source("clicks", rate(), watermark=("value", "1 minute"))
    p.sink("out", files(path="out", format="json"), reads="clicks", mode="update")
    p.sink("show", console(), reads="clicks")
    findings = p.check(offline=True)
    assert [finding.problem.code for finding in findings] == [
        "HW-WATERMARK-TYPE-INVALID",
        "HW-SINK-MODE-UNSUPPORTED",
    ]
    line = write.__code__.co_firstlineno
    wrong: Any = write
    p.sink("call", foreach_batch(function=wrong), reads="clicks")
    with pytest.raises(PipelineError) as error:
        p.check(offline=True)
    (problem,) = error.value.problems
    assert problem.params["takes"] == "batch: 'Any'"
    assert problem.place is not None
    assert (problem.code, problem.place.file, problem.place.line) == (
        "HW-FUNCTION-ARGUMENTS-MISMATCH",
        __file__,
        line,
    )


MISSPELT = """
name: shop
sources:
  clicks: {connector: rate}
tables:
  few: SELEC * FROM clicks
  many: |
    SELECT value
    FROM clicks WHRE value > 3
  later: SELECT value:a.b FROM clicks
sinks:
  few: {reads: few, connector: noop}
  many: {reads: many, connector: noop}
  later: {reads: later, connector: noop}
""".lstrip()


def test_misspelt_sql_is_an_error_at_its_word(tmp_path: Path) -> None:
    findings = check(pipeline(tmp_path, MISSPELT), offline=True).findings
    problems = [finding.problem for finding in findings if finding.is_error]
    places = [problem.place for problem in problems]
    assert [(problem.code, problem.hint) for problem in problems] == [
        ("HW-SQL-SYNTAX", "Did you mean `SELECT`?"),
        ("HW-SQL-SYNTAX", "Did you mean `WHERE`?"),
    ]
    assert [(place.line, place.column) for place in places if place] == [(5, 8), (8, 17)]
    others = [finding.problem.code for finding in findings if not finding.is_error]
    assert others == ["HW-SQL-UNKNOWN-OFFLINE"]
