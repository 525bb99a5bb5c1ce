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
MOST_WORDS = 1200
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


MARKDOWN = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
MARKDOWN += [*PAGES, *sorted((ROOT / "examples").rglob("*.md")), *sorted((ROOT / "demo").rglob("*.md"))]


def links(page: Path) -> Iterator[tuple[str, str]]:
    """The links of a page to other files and to headings: path and anchor."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    yield from re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)", text)


def anchors(page: Path) -> set[str]:
    """The anchors of a page: one for each heading, as the site and code hosts make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for name in re.findall(r'^--8<-- "([^"]+)"', text, re.MULTILINE):
        text += FENCE.sub("", (ROOT / name).read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", re.sub(r"\]\([^)]*\)", "]", each)).strip().lower() for each in headings)
    return {re.sub(r"\s+", "-", each) for each in plain} | set(re.findall(r'id="([^"]+)"', text))


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    # What a page of the site includes has links from where it is included.
    found = list(links(page))
    targets = [(path, anchor, (page.parent / path).resolve() if path else page) for path, anchor in found]
    broken = [f"{path}: no such file" for path, _, target in targets if not target.exists()]
    broken += [
        f"{path}#{anchor}: no such heading"
        for path, anchor, target in targets
        if anchor and target.suffix == ".md" and target.exists() and anchor not in anchors(target)
    ]
    assert broken == []


def words_of_prose(page: Path) -> int:
    """The words of a page outside of code and tables, which readers look things up in."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    return len(re.findall(r"[A-Za-z0-9][\w'’-]*", re.sub(r"\]\([^)]*\)", "]", prose)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_page_is_not_too_long(page: Path) -> None:
    generated = page.read_text(encoding="utf-8").startswith("<!-- Generated")
    assert generated or words_of_prose(page) <= MOST_WORDS


def members(side: type[Any]) -> set[str]:
    """What a class says and can be asked for."""
    return {name for name in {*vars(side), *side.__annotations__} if not name.startswith("_")}


@pytest.mark.parametrize("side", [Source, Sink])
def test_a_connector_can_be_written_from_its_page(side: type[Source[Any]] | type[Sink[Any]]) -> None:
    page = (DOCS / "contribute" / "connector-sdk-reference.md").read_text(encoding="utf-8")
    rows = page.partition(f"| `{side.__name__}` | meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)[`(]", rows, re.MULTILINE)) == members(side) - {"__module__"}


def test_every_ability_of_a_connector_is_on_its_page() -> None:
    page = (DOCS / "contribute" / "connector-sdk-reference.md").read_text(encoding="utf-8")
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
    contribute = DOCS / "contribute"
    named = [contribute / f"{name}.md" for name in ("architecture", "extend", "internals")]
    for page in (*named, *sorted((contribute / "walks").glob("*.md"))):
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
