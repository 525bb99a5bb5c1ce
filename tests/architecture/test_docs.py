"""The documentation hangs together: every page is in the navigation, every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from headwater.spec import SinkSide, SourceSide

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def navigated(entry: object) -> Iterator[str]:
    """The pages below one entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for inner in entry.values():
            yield from navigated(inner)
    elif isinstance(entry, list):
        for inner in entry:
            yield from navigated(inner)


def test_the_navigation_holds_every_page_once() -> None:
    settings = YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(navigated(settings["nav"])) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_every_link_leads_to_a_file() -> None:
    links = [
        (page, link)
        for page in PAGES
        for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    ]
    assert links
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).is_file()] == []


@pytest.mark.parametrize("side", [SourceSide, SinkSide])
def test_a_connector_can_be_written_from_its_page(side: type[SourceSide] | type[SinkSide]) -> None:
    page = (DOCS / "connectors" / "writing.md").read_text(encoding="utf-8")
    rows = page.partition(f"| `{side.__name__}` | meaning |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == sorted(
        each.name for each in fields(side)
    )
