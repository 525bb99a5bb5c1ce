"""The table of queries and modes for the docs, made from what the matrix of the tests came to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.contract import ROOT

OUTCOMES = ROOT / "tests" / "checker" / "outcomes.json"
MODES = ("append", "update", "complete")
SINKS = "into "
BEGIN = "<!-- modes: written by `python -m scripts.reference` from tests/checker/outcomes.json -->"
END = "<!-- modes: end -->"


@dataclass(frozen=True)
class Row:
    """A kind of query, or one variant of it where its variants differ."""

    name: str
    works: Mapping[str, bool]
    codes: tuple[str, ...]

    def cells(self, link: str) -> list[str]:
        """Its line in the table; an empty cell was not tried."""
        shown = {True: "yes", False: "no"}
        said = [shown[self.works[mode]] if mode in self.works else "" for mode in MODES]
        return [self.name, *said, ", ".join(f"[{code}]({link}#{code.lower()})" for code in self.codes)]


def rows(cases: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """The rows of cases, in the order of their kinds: one for those that agree, and one for each other."""
    kinds: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for case in cases:
        kinds.setdefault(case["kind"], {}).setdefault(case["variant"], []).append(case)
    for kind in sorted(kinds, key=str.lower):
        alike: list[Mapping[str, Any]] = []
        others: list[Row] = []
        for variant in sorted(kinds[kind]):
            if _agree([*alike, *kinds[kind][variant]]):
                alike += kinds[kind][variant]
            else:
                others.append(_row(f"{kind}: {variant}", kinds[kind][variant]))
        yield _row(kind if not others else _named(kind, alike), alike)
        yield from others


def _named(kind: str, alike: list[Mapping[str, Any]]) -> str:
    """The name of a kind of which not all is alike: its own where that is a case, or its variants."""
    variants = sorted({case["variant"] for case in alike})
    return kind if "" in variants else f"{kind}: {', '.join(variants)}"


def _agree(cases: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all of them come to the same in each mode."""
    found: dict[str, set[bool]] = {}
    for case in cases:
        found.setdefault(case["mode"], set()).add(case["outcome"] == "works")
    return all(len(outcomes) == 1 for outcomes in found.values())


def _row(name: str, cases: list[Mapping[str, Any]]) -> Row:
    works = {case["mode"]: case["outcome"] == "works" for case in cases}
    return Row(name, works, tuple(sorted({code for case in cases for code in case["codes"]})))


def section() -> list[str]:
    """The tables of queries and of sinks."""
    known = json.loads(OUTCOMES.read_text(encoding="utf-8")).values()
    plain = [case for case in known if case["trigger"] == "available now"]
    queries = [case for case in plain if case["sink"] == "memory"]
    sinks = [case for case in plain if case["kind"].startswith(SINKS)]
    head = "| {0} | append | update | complete | if not |"
    lines = [head.format("query"), "|---|---|---|---|---|"]
    lines += [_line(row) for row in rows(queries)]
    lines += ["", head.format("sink"), "|---|---|---|---|---|"]
    lines += [_line(row) for row in rows(sinks)]
    return lines


def _line(row: Row) -> str:
    return "| " + " | ".join(row.cells("../errors.md")) + " |"


def with_section(page: str) -> str:
    """The page with its tables as they are now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN!r} … {END!r}")
    return "\n".join([before + BEGIN, "", *section(), "", END + after])
