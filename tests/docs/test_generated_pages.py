"""The reference pages say what the code says, and hold everything that the code has."""

from __future__ import annotations

import re

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

import headwater
from headwater.api.project import schema
from headwater.connectors import all_connectors
from headwater.errors import HeadwaterError
from headwater.errors.catalogue import ENTRIES
from headwater.loaders.keys import PipelineKeys, TableKeys, known_keys
from headwater.spec.pipeline import SinkKeys, SourceKeys
from scripts import reference
from scripts.reference_rules import built_in

PAGES = reference.pages()
YAML_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
EMPTY_CODE = re.compile(r"(?<!`)``(?!`)")


def keys_in(page: str) -> set[str]:
    """The first cells of a page's tables."""
    return set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE))


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE), re.M)


@pytest.mark.parametrize("path", PAGES)
def test_the_committed_page_is_what_the_code_says(path: str) -> None:
    assert (reference.DOCS / path).read_text(encoding="utf-8") == PAGES[path], (
        "run `python -m scripts.reference`"
    )


def test_the_check_says_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main(["--check"]) == 0
    assert capsys.readouterr().out == ""


def test_the_check_names_a_page_that_is_out_of_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "pages", lambda: {**PAGES, "errors.md": "old"})
    assert reference.main(["--check"]) == 1
    assert capsys.readouterr().out == "docs/errors.md is out of date: run `python -m scripts.reference`\n"


def test_pages_are_the_same_each_time() -> None:
    assert reference.pages() == PAGES
    assert [path for path, page in PAGES.items() if " at 0x" in page] == []


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_sound(path: str) -> None:
    page = PAGES[path]
    assert EMPTY_CODE.search(page) is None
    assert page.count("\n```") % 2 == 0
    assert [line for line in page.splitlines() if line != line.rstrip()] == []
    assert len(headings(page)) == len(set(headings(page)))


def test_every_key_is_on_its_page() -> None:
    keys = {key for model in (PipelineKeys, SourceKeys, TableKeys, SinkKeys) for key in known_keys(model)}
    assert keys <= keys_in(PAGES["reference/pipeline.md"])
    page = PAGES["reference/connectors.md"]
    for connector in reference.built_in():
        for side in (connector.source, connector.sink):
            assert side is None or set(known_keys(side.options)) <= keys_in(page)


def test_every_connector_has_a_section() -> None:
    built_in = {name for name, each in all_connectors().items() if each.built_in}
    assert built_in <= set(headings(PAGES["reference/connectors.md"]))


def test_every_command_and_exit_code_is_there() -> None:
    page = PAGES["reference/commands.md"]
    commands = {"init", "doctor", "check", "explain", "schema", "run"}
    assert {f"headwater {name}" for name in commands} <= set(headings(page))
    codes = {str(error.exit_code) for error in reference.subclasses(HeadwaterError)}
    assert {"0", "1", "2", "3", "4", "5", "70", "130"} == codes | {"0", "70"}
    assert {"0", "70", *codes} <= keys_in(page)


def test_every_public_name_is_there() -> None:
    assert {f"hw.{name}" for name in headwater.__all__} <= set(headings(PAGES["reference/python.md"]))


def test_every_error_is_there_in_order() -> None:
    page = PAGES["errors.md"]
    wanted = [
        code
        for _, (_, entries) in sorted(reference.areas().items())
        for code in sorted(entry.code for entry in entries)
    ]
    assert [heading for heading in headings(page) if heading.startswith("HW-")] == wanted
    assert {entry.code for entry in ENTRIES.values()} <= set(wanted)
    assert {entry.code for rule in built_in().values() for entry in rule.entries} <= set(wanted)


def test_the_whole_examples_are_pipelines() -> None:
    blocks = YAML_BLOCK.findall(PAGES["reference/pipeline.md"])
    files = [file for block in blocks if (file := YAML(typ="safe").load(block))]
    assert [file["name"] for file in files] == ["word_count"]
    for file in files:
        Draft202012Validator(schema()).validate(file)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("a {b!r} c", "a {b} c"),
        ("{hint} Known: {known}.", "Known: {known}."),
        ("`{{a: {b}}}`", "`{a: {b}}`"),
        ("<x> `<y>`", "&lt;x> `<y>`"),
    ],
)
def test_a_template_is_shown_as_people_read_it(words: str, shown: str) -> None:
    assert reference.template(words) == shown
