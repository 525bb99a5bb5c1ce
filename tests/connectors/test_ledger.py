"""A connector of another package that does all of it: bad rows, a ledger, its own jar, its own settings."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headwater.quarantine import quarantines
from tests.connectors.installing import answer, headwater, install, python, wheel
from tests.java_classes import make_jar

LEDGER = Path(__file__).parent / "ledger"
FIRST = ["1,12.50", "2,3", "3,much", "no payment"]
SECOND = ["4,0.05", "5,1.005"]
PAID = Counter({(1, 1250): 1, (2, 300): 1})
CONFORMS = """
import json
from headwater.testing.conformance import problems_of
print(json.dumps(problems_of("ledger", source={"path": "in"}, sink={"path": "paid.db"})))
"""
STARTS = """
import json, sqlite3
from pathlib import Path
from headwater.testing.conformance import start_problems
written = lambda: sqlite3.connect("paid.db").execute("SELECT * FROM payments ORDER BY id").fetchall()
print(json.dumps(start_problems(Path("pipeline.yml").absolute(), written)))
"""
RUN = """
import json
from headwater.api.run import Output, run
from headwater.runtime import RunOptions
quiet = Output(lambda event: None, lambda line: None)
(result,) = run(["pipeline.yml"], RunOptions(until_idle=True), quiet)
print(json.dumps([result.exit_code, result.queries["paid"].to_json()["sources"]]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the connector, and its jar beside its module."""
    named = ("pyproject.toml", "headwater_ledger/__init__.py")
    files = {name: (LEDGER / name).read_text(encoding="utf-8") for name in named}
    site = install(wheel(files, tmp_path_factory.mktemp("wheels")), tmp_path_factory.mktemp("site"))
    classes = {file.name: file.read_text(encoding="utf-8") for file in (LEDGER / "java").iterdir()}
    make_jar(site / "headwater_ledger" / "ledger.jar", classes)
    return site


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A pipeline with the connector, and some payments."""
    (tmp_path / "pipeline.yml").write_text((LEDGER / "pipeline.yml").read_text())
    (tmp_path / "in").mkdir()
    put(tmp_path, "1", FIRST)
    return tmp_path


def put(project: Path, name: str, lines: list[str]) -> None:
    (project / f".{name}").write_text("\n".join(lines))
    (project / f".{name}").rename(project / "in" / f"{name}.txt")


def held(project: Path, table: str = "payments") -> Counter[tuple[Any, ...]]:
    with closing(sqlite3.connect(project / "paid.db")) as ledger:
        return Counter(ledger.execute(f"SELECT * FROM {table}").fetchall())


def test_it_conforms(site: Path, project: Path) -> None:
    assert answer(python(CONFORMS, site, project)) == []


def test_it_starts_and_takes_each_batch_once(site: Path, project: Path) -> None:
    assert answer(python(STARTS, site, project)) == []
    assert held(project) == PAID
    (quarantine,) = quarantines(project / ".headwater")
    bad = Counter((row.reason, row.file, row.text) for row in quarantine.rows())
    file = str(project / "in" / "1.txt")
    assert bad == Counter({("malformed", file, "3,much"): 1, ("malformed", file, "no payment"): 1})


def test_a_kill_after_the_ledger_has_a_batch_repeats_nothing(
    site: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_DIES", "1")
    assert headwater(site, project, "run", "--until-idle", "pipeline.yml").returncode < 0
    assert held(project) == PAID
    monkeypatch.delenv("LEDGER_DIES")
    put(project, "2", SECOND)
    code, counted = answer(python(RUN, site, project))
    assert (code, counted["payments"]["bad"]) == (0, 3)
    assert held(project) == PAID + Counter({(4, 5): 1})
    # The batch of the run that was killed is there once, and the later run has a greater epoch.
    queries, batches, epochs = zip(*sorted(held(project, "batches").elements()), strict=True)
    assert (len(set(queries)), batches) == (1, (0, 1))
    assert epochs[0] < epochs[1]


def test_a_mended_row_is_replayed_once(site: Path, project: Path) -> None:
    assert headwater(site, project, "run", "--until-idle", "pipeline.yml").returncode == 0
    exported = headwater(
        site, project, "quarantine", "export", "pipeline.yml", "payments", "--output", "bad.jsonl"
    )
    assert exported.returncode == 0, exported.stderr
    text = (project / "bad.jsonl").read_text().replace('"3,much"', '"3,7.00"')
    (project / "bad.jsonl").write_text(text)
    done = headwater(site, project, "quarantine", "replay", "pipeline.yml", "payments", "--file", "bad.jsonl")
    assert done.returncode == 0, done.stderr
    assert headwater(site, project, "run", "--until-idle", "pipeline.yml").returncode == 0
    assert held(project) == PAID + Counter({(3, 700): 1})


def test_a_run_that_was_superseded_is_refused(site: Path, project: Path) -> None:
    assert headwater(site, project, "run", "--until-idle", "pipeline.yml").returncode == 0
    with closing(sqlite3.connect(project / "paid.db")) as ledger, ledger:
        ledger.execute("UPDATE batches SET epoch = 1000")
    put(project, "2", SECOND)
    done = headwater(site, project, "run", "--until-idle", "pipeline.yml")
    assert done.returncode != 0
    assert "was taken over by a newer run" in done.stderr + done.stdout
    assert held(project) == PAID
