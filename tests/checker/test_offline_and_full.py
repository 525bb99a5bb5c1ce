"""What a check says offline, a check with Spark never takes back: what can't be known is called unknown."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.api.results import CheckResult
from headwater.checks import Finding
from headwater.checks.guarantees import Level
from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError
from tests.docs.pages import ROOT
from tests.pipelines import feed, write
from tests.unit.loaders.refusing import bare, project, written

IN_THE_GATE = ("ad_clicks", "ad_revenue", "custom_source", "demo", "two_destinations")
EXAMPLES = [
    pytest.param(
        file,
        id=f"{file.parent.name}/{file.name}",
        marks=() if file.parent.name in IN_THE_GATE else pytest.mark.soak,
    )
    for file in (*sorted((ROOT / "examples").glob("*/*.yml")), ROOT / "demo" / "pipeline.yml")
]
REFUSED = ROOT / "tests" / "unit" / "loaders" / "refused"

SOURCES = """
name: unsound
sources:
  visits: {connector: files, path: in, format: json, schema: {id: int, at: timestamp, name: string}}
  timed:
    {connector: files, path: in, format: json, schema: {id: int, at: timestamp},
     watermark: {column: at, delay: 1 hour}}
  names: {connector: files, path: in, format: json, schema: {id: int, name: string}, static: true}
  changing:
    {connector: files, path: in, format: json, schema: {id: int, name: string}, static: true,
     refresh: every batch}
  lines: {connector: socket, host: localhost, port: 9}
tables:
"""
INTO_FILES = "{reads: t, connector: files, path: out, format: json}"
NOOP = "{reads: t, connector: noop}"
# Tables, a sink, and the errors offline and with Spark.
UNSOUND = {
    # What both see.
    "unknown table": ("t: SELECT * FROM vists", NOOP, "TABLE-NOT-FOUND", "TABLE-NOT-FOUND"),
    "behind a table that only Spark reads": (
        "k: SELECT name:a.b AS b FROM visits\n  t: SELECT * FROM k JOIN nams",
        NOOP,
        "TABLE-NOT-FOUND",
        "SPARK-ANALYSIS-FAILED TABLE-NOT-FOUND",
    ),
    "circle": ("t: SELECT * FROM u\n  u: SELECT * FROM t", NOOP, "TABLE-CYCLE", "TABLE-CYCLE"),
    "no query": ("t: DROP TABLE visits", NOOP, "SQL-NOT-A-QUERY", "SQL-NOT-A-QUERY"),
    "no query behind a WITH": (
        "t: WITH x AS (SELECT 1) INSERT INTO visits SELECT * FROM x",
        NOOP,
        "SQL-NOT-A-QUERY",
        "SQL-NOT-A-QUERY",
    ),
    "mode of the sink": (
        "t: SELECT * FROM visits",
        INTO_FILES.replace("json", "json, mode: update"),
        "SINK-MODE-UNSUPPORTED",
        "SINK-MODE-UNSUPPORTED",
    ),
    # What is told with Spark only, and could be known before.
    "not a stream": ("t: SELECT * FROM names", NOOP, "", "SINK-NOT-STREAMING"),
    "continuous into files": (
        "t: SELECT * FROM visits",
        INTO_FILES.replace("json", "json, trigger: continuous 1 second"),
        "",
        "TRIGGER-SINK-UNSUPPORTED TRIGGER-SOURCE-UNSUPPORTED",
    ),
    "real time from files": (
        "t: SELECT * FROM visits",
        "{reads: t, connector: console, mode: update, trigger: real time 5 minutes}",
        "",
        "TRIGGER-SOURCE-UNSUPPORTED",
    ),
    # What only Spark sees; offline nothing is said of it.
    "unknown column": ("t: SELECT idd FROM visits", INTO_FILES, "", "COLUMN-NOT-FOUND"),
    "never final": (
        "t: SELECT id, count(*) AS n FROM visits GROUP BY id",
        INTO_FILES,
        "",
        "APPEND-NEEDS-WATERMARK",
    ),
    "taken apart": (
        "t: \"SELECT count(*) AS n FROM timed GROUP BY window(at, '1 minute').start\"",
        INTO_FILES,
        "",
        "GROUP-BY-WINDOW-FIELD",
    ),
    "syntax": ("t: SELECT sum( FROM visits", INTO_FILES, "SQL-SYNTAX", "SQL-SYNTAX"),
    "syntax of another dialect": ("t: SELECT * FROM visits FOR UPDATE", INTO_FILES, "", "SQL-SYNTAX"),
    "sorted": ("t: SELECT * FROM visits ORDER BY id", INTO_FILES, "", "SORT-UNSUPPORTED"),
    # Guarantees.
    "random": ("t: SELECT id, rand() AS x FROM visits", INTO_FILES, "", ""),
    "read once": ("t: SELECT * FROM lines", INTO_FILES, "", ""),
    "read once, for Spark to tell": (
        "k: SELECT cast(value AS timestamp) AS at FROM lines\n"
        "  t: SELECT at FROM k WATERMARK at DELAY OF INTERVAL 1 MINUTE",
        INTO_FILES,
        "",
        "",
    ),
    "static rows that change": (
        "t: SELECT v.id, c.name FROM visits v JOIN changing c ON v.id = c.id",
        INTO_FILES,
        "",
        "",
    ),
    "recursive": (
        "r: WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r\n"
        "  t: SELECT v.id FROM visits v JOIN r ON v.id = r.n",
        INTO_FILES,
        "",
        "",
    ),
    "own code": (
        "t: SELECT * FROM visits",
        "{reads: t, connector: foreach_batch, function: 'own.py:write'}",
        "",
        "",
    ),
    "shown": ("t: SELECT * FROM visits", "{reads: t, connector: console}", "", ""),
}


def places(findings: tuple[Finding, ...]) -> set[tuple[str, str]]:
    """The code of each with its file and line."""
    return {
        (each.problem.code, f"{each.problem.file}:{each.problem.place.line if each.problem.place else 0}")
        for each in findings
    }


def contradictions(offline: CheckResult, full: CheckResult) -> Iterator[str]:
    """What the full check takes back of what was said without Spark."""
    errors = places(full.errors)
    lines = {place for _, place in errors}
    for code, place in places(offline.errors):
        # Spark may call it by a more exact name; but something is wrong there.
        if place not in lines:
            yield f"{code} at {place} is told offline only; with Spark {errors}"
    if not full.errors:
        taken_back = places(offline.warnings) - places(full.findings)
        yield from (f"{code} at {place} is told offline only" for code, place in taken_back)
    levels = {sink.name: sink.outline.guarantee.level for sink in full.sinks if sink.outline}
    for sink in offline.sinks:
        assert sink.without_spark, sink.name
        known = sink.without_spark.level
        if known not in (Level.UNKNOWN, levels.get(sink.name, known)):
            yield f"{sink.name} is {known} offline, and {levels[sink.name]} with Spark"
        if known is Level.EXACTLY_ONCE:
            yield f"{sink.name} is exactly once offline, where the query is not known"


@pytest.mark.parametrize("file", EXAMPLES)
def test_an_example_is_told_the_same(context: SparkContext, file: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(file.parent, project, ignore=shutil.ignore_patterns(".headwater", "work", "out"))
    copy = project / file.name
    for source in load(copy, reads=False).sources:
        for path in getattr(source.options, "path", ()):
            if not Path(path).exists():
                Path(path).mkdir(parents=True)
    assert list(contradictions(check(copy, offline=True), check(copy))) == []


@pytest.mark.parametrize("name", UNSOUND)
def test_an_unsound_pipeline_is_told_the_same(context: SparkContext, name: str, tmp_path: Path) -> None:
    feed(tmp_path / "in", "a", [{"id": 1}])
    write(tmp_path, "def write(batch, batch_id):\n    pass\n", "own.py")
    tables, sink, *codes = UNSOUND[name]
    file = write(tmp_path, f"{SOURCES.lstrip()}  {tables}\nsinks:\n  out: {sink}\n")
    offline, full = check(file, offline=True), check(file)
    assert [told(offline), told(full)] == codes
    assert list(contradictions(offline, full)) == []


def told(result: CheckResult) -> str:
    return " ".join(each.problem.code.removeprefix("HW-") for each in result.errors)


def judged(folder: Path) -> Iterator[tuple[str, Path]]:
    """The refused files of the loaders' tests that can be loaded: the graph and the rules refuse them."""
    for source in sorted(REFUSED.glob("*.cases")):
        cases = re.split(r"^=== ", source.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
        for number, case in enumerate(cases):
            title, _, text = case.partition("\n")
            content = bare(text) if source.stem == "documents" else written(text)
            file = project(folder / f"{source.stem}{number}", content)
            try:
                load(file)
            except PipelineError:
                continue
            yield f"{source.stem}: {title}", file


def test_a_refused_file_is_refused_by_both(context: SparkContext, tmp_path: Path) -> None:
    seen = 0
    for title, file in judged(tmp_path):
        offline = check(file, offline=True)
        if offline.errors:
            seen += 1
            assert list(contradictions(offline, check(file))) == [], title
    assert seen > 20
