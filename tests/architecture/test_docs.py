"""The documentation hangs together: every page is in the navigation, every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from headwater.connectors import Sink, Source, connector

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


def members(side: type[Any]) -> set[str]:
    """What a class says and can be asked for."""
    return {name for name in {*vars(side), *side.__annotations__} if not name.startswith("_")}


@pytest.mark.parametrize("side", [Source, Sink])
def test_a_connector_can_be_written_from_its_page(side: type[Source[Any]] | type[Sink[Any]]) -> None:
    page = (DOCS / "connectors" / "writing.md").read_text(encoding="utf-8")
    rows = page.partition(f"| `{side.__name__}` | meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)[`(]", rows, re.MULTILINE)) == members(side) - {"__module__"}


def test_every_ability_of_a_connector_is_on_its_page() -> None:
    page = (DOCS / "connectors" / "writing.md").read_text(encoding="utf-8")
    rows = page.partition("| ability | methods |")[2].partition("\n\n")[0]
    own = (each for each in vars(connector).values() if getattr(each, "__module__", "") == connector.__name__)
    abilities = [each for each in own if getattr(each, "_is_protocol", False)]
    assert abilities
    told = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", rows, re.MULTILINE))
    assert set(told) == {each.__name__ for each in abilities}
    for each in abilities:
        assert {name for name in members(each) if f"`{name}" not in told[each.__name__]} == set()


def test_the_walks_name_modules_that_are_there() -> None:
    source = ROOT / "src" / "headwater"
    missing = []
    for page in (DOCS / "architecture.md", *sorted((DOCS / "walks").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        files = {
            name
            for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", text)
            if not name.startswith("tests/")
        }
        missing += [f"{page.name}: {name}" for name in files if not (source / name).is_file()]
        for module, name in re.findall(r"`([a-z_]+(?:/[a-z_]+)+)\.(?!py`)(\w+)`", text):
            file = source / f"{module}.py"
            if not file.is_file() or not re.search(
                rf"\b(def|class) {name}\b", file.read_text(encoding="utf-8")
            ):
                missing.append(f"{page.name}: {module}.{name}")
    assert missing == []
