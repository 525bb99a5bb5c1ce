"""The page of the output mode matrix, from the outcomes that the tests of the checker recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.contract import ROOT
from scripts.markdown import anchor, table

OUTCOMES = ROOT / "tests" / "checker" / "outcomes.json"
MODES = ("append", "update", "complete")
SINKS = "into "

INTRODUCTION = """\
# Output mode matrix

This page lists which output modes each kind of query and each sink supports.

[Output modes](../concepts/output-modes.md) explains the modes. The tests of Headwater run every combination on Spark,
so the tables show what Spark does. An empty cell was not tested. The last column has the codes that `headwater check`
reports for the unsupported combinations, with links to the fix.
"""


@dataclass(frozen=True)
class Row:
    """A kind of query, or one variant of it if its variants differ."""

    name: str
    works: Mapping[str, bool]
    codes: tuple[str, ...]

    def cells(self) -> list[str]:
        """Its row of the table; an empty cell was not tested."""
        shown = {True: "yes", False: "no"}
        supported = [shown[self.works[mode]] if mode in self.works else "" for mode in MODES]
        codes = ", ".join(f"[{code}](errors.md#{anchor(code)})" for code in self.codes)
        return [self.name, *supported, codes]


def modes_page() -> Iterator[str]:
    """The tables of queries and of sinks."""
    known = json.loads(OUTCOMES.read_text(encoding="utf-8")).values()
    plain = [case for case in known if case["trigger"] == "available now"]
    queries = [case for case in plain if case["sink"] == "memory"]
    sinks = [case for case in plain if case["kind"].startswith(SINKS)]
    yield from (*INTRODUCTION.splitlines(), "", "## Queries", "")
    yield from table(("query", *MODES, "codes if unsupported"), (row.cells() for row in rows(queries)))
    yield from ("## Sinks", "")
    yield from table(("sink", *MODES, "codes if unsupported"), (row.cells() for row in rows(sinks)))


def rows(cases: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """The rows of cases, in the order of their kinds: one for those that agree, and one for each other."""
    kinds: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for case in cases:
        kinds.setdefault(case["kind"].removeprefix(SINKS), {}).setdefault(case["variant"], []).append(case)
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
    """The name of a kind whose variants differ: its own if that is a case, or its variants."""
    variants = sorted({case["variant"] for case in alike})
    return kind if "" in variants else f"{kind}: {', '.join(variants)}"


def _agree(cases: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all of them have the same outcome in each mode."""
    found: dict[str, set[bool]] = {}
    for case in cases:
        found.setdefault(case["mode"], set()).add(case["outcome"] == "works")
    return all(len(outcomes) == 1 for outcomes in found.values())


def _row(name: str, cases: list[Mapping[str, Any]]) -> Row:
    works = {case["mode"]: case["outcome"] == "works" for case in cases}
    return Row(name, works, tuple(sorted({code for case in cases for code in case["codes"]})))
