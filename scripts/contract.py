"""The rows of docs/contribute/contract.md, and their state after the last test run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
CONTRACT = ROOT / "docs" / "contribute" / "contract.md"
RECORDS = ROOT / "build" / "features"

Outcome = Literal["passed", "failed", "skipped"]
State = Literal["pass", "part", "fail", "missing"]
STATES: tuple[State, ...] = ("pass", "part", "fail", "missing")

_SECTION = re.compile(r"^## (?P<title>.+)$")
_ROW = re.compile(r"^\| (?P<id>[A-Z]\d+(?:\.\d+)?) \| (?P<claim>.+) \|$")


@dataclass(frozen=True)
class Row:
    """One claim of the contract."""

    id: str
    claim: str
    section: str


@dataclass(frozen=True)
class Result:
    """The result of one test for one row; `part` is empty if the test covers the whole row."""

    feature: str
    test: str
    part: str
    outcome: Outcome


def read_rows(text: str) -> list[Row]:
    """The rows of the contract's text, in order."""
    rows: list[Row] = []
    section = ""
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section = heading["title"]
        elif row := _ROW.match(line):
            rows.append(Row(row["id"], row["claim"], section))
    return rows


def contract() -> list[Row]:
    """The rows of docs/contribute/contract.md."""
    return read_rows(CONTRACT.read_text(encoding="utf-8"))


def write_results(file: Path, results: Iterable[Result]) -> None:
    """Replace the record of one test step."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"version": 1, "results": [vars(result) for result in results]}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_results(folder: Path) -> list[Result]:
    """The records of all test steps."""
    results: list[Result] = []
    for file in sorted(folder.glob("*.json")):
        results += [Result(**entry) for entry in json.loads(file.read_text(encoding="utf-8"))["results"]]
    return results


def state_of(results: Iterable[Result]) -> State:
    """A row passes if a test of the whole row passed and none failed. Skipped tests do not count."""
    known = [result for result in results if result.outcome != "skipped"]
    if any(result.outcome == "failed" for result in known):
        return "fail"
    if any(not result.part for result in known):
        return "pass"
    return "part" if known else "missing"
