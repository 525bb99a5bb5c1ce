"""The reference pages match the code and list everything in it."""

from __future__ import annotations

import re

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

import headwater
from headwater.api.project import schema
from headwater.connectors import all_connectors
from headwater.errors import HeadwaterError
from headwater.errors.catalogue import AREAS, ENTRIES
from headwater.loaders.keys import PipelineKeys, TableKeys, known_keys
from headwater.spec.pipeline import SinkKeys, SourceKeys
from scripts import reference, reference_errors, reference_python, reference_rules
from scripts.markdown import anchor, template
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
    monkeypatch.setattr(reference, "pages", lambda: {**PAGES, "reference/errors.md": "old"})
    assert reference.main(["--check"]) == 1
    out = "docs/reference/errors.md is out of date: run `python -m scripts.reference`\n"
    assert capsys.readouterr().out == out


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
    assert re.match(r"<!-- .* -->\n\n# \w.*\n\n.*\.", page), "a page starts with what it lists"


ANCHOR = re.compile(r"\]\(([\w-]+\.md)?#([\w-]+)\)")


@pytest.mark.parametrize("path", PAGES)
def test_links_between_generated_pages_have_a_target(path: str) -> None:
    anchors = {path.rpartition("/")[2]: set(map(anchor, headings(page))) for path, page in PAGES.items()}
    here = path.rpartition("/")[2]
    links = {(file or here, target) for file, target in ANCHOR.findall(PAGES[path])}
    assert [link for link in sorted(links) if link[0] in anchors and link[1] not in anchors[link[0]]] == []


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


def test_keys_have_json_schema_types() -> None:
    for path in ("reference/pipeline.md", "reference/connectors.md"):
        types = re.findall(r"^\| `[^`]+` \| ([^|]*) \|", PAGES[path], re.MULTILINE)
        named = re.compile(
            r"any\b|string|integer|number|boolean|array|object|\[object|duration|timestamp|\[trigger|one of|`"
        )
        assert [each for each in types if not named.match(each)] == []
        assert "anything" not in PAGES[path]


def test_a_choice_is_listed_once() -> None:
    (row,) = re.findall(r"^\| `acks` \|.*$", PAGES["reference/connectors.md"], re.MULTILINE)
    choices = re.findall(r"`[^`]+`", row.split("|")[2])
    assert len(choices) == len(set(choices)) > 1


def test_every_connector_has_a_guide() -> None:
    assert {each.name for each in reference.built_in()} == set(reference.GUIDES)


def test_every_exit_code_has_one_sentence() -> None:
    for code, words in reference.exit_codes():
        assert words.endswith("."), code
    assert [code for code, _ in reference.exit_codes()] == [
        f"`{code}`" for code in (0, 1, 2, 3, 4, 5, 70, 124, 130)
    ]


def test_options_that_can_be_repeated_are_marked() -> None:
    page = PAGES["reference/commands.md"]
    rows = re.findall(r"^\| `--conf KEY=VALUE` \|.*$", page, re.MULTILINE)
    assert rows
    assert all("(repeatable)" in row for row in rows)


def test_every_public_name_is_there() -> None:
    assert {f"hw.{name}" for name in headwater.__all__} <= set(headings(PAGES["reference/python.md"]))


def test_every_public_parameter_has_a_description() -> None:
    assert reference_python.undescribed() == []


def test_a_parameter_without_a_description_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: words for name, words in reference_python.DESCRIPTIONS.items() if name != "hw.secret.name"}
    monkeypatch.setattr(reference_python, "DESCRIPTIONS", known)
    assert reference_python.undescribed() == ["## hw.secret: | `name` | |"]


def test_parameters_can_be_described_in_a_docstring() -> None:
    doc = "Do it.\n\nArgs:\n    path: Where it is,\n        in full.\n    **rest: Others.\n"
    assert reference_python.args_of(doc) == {"path": "Where it is, in full.", "rest": "Others."}
    assert reference_python.ARGS.sub("", doc) == "Do it."


def test_every_error_is_there_in_order() -> None:
    page = PAGES["reference/errors.md"]
    wanted = [entry.code for section in reference_errors.sections() for entry in section.entries]
    assert [heading for heading in headings(page) if heading.startswith("HW-")] == wanted
    assert {entry.code for entry in ENTRIES.values()} <= set(wanted)
    assert {entry.code for rule in built_in().values() for entry in rule.entries} <= set(wanted)
    built_in_connectors = (each for each in all_connectors().values() if each.built_in)
    assert {entry.code for each in built_in_connectors for entry in each.errors.values()} <= set(wanted)


def test_every_area_of_errors_and_checks_has_a_title() -> None:
    assert set(AREAS) == set(reference_errors.MODULES)
    assert {section.title for section in reference_errors.sections()} == set(reference_errors.SECTIONS)
    modules = {rule.module.rpartition(".")[2] for rule in built_in().values()}
    assert modules == set(reference_rules.TITLES)


def test_every_code_of_a_check_is_linked_in_both_directions() -> None:
    checks, errors = PAGES["reference/checks.md"], PAGES["reference/errors.md"]
    for rule in built_in().values():
        for entry in rule.entries:
            assert f"(errors.md#{entry.code.lower()})" in checks
    assert errors.count("**Check:**") == len(
        {entry.code for rule in built_in().values() for entry in rule.entries}
    )


def test_no_message_is_repeated_on_the_page_of_the_checks() -> None:
    page = " ".join(PAGES["reference/checks.md"].split())
    entries = {entry for rule in built_in().values() for entry in rule.entries}
    shown = {words for entry in entries for words in (template(entry.message), template(entry.hint)) if words}
    assert [words for words in shown if words in page] == []


@pytest.mark.parametrize("path", ["reference/connectors.md", "reference/pipeline.md", "reference/python.md"])
def test_every_description_is_a_sentence(path: str) -> None:
    rows = re.findall(r"^\| `.*\| ([^|]*) \|$", PAGES[path], re.MULTILINE)
    assert [words for words in rows if words and not words.endswith((".", "?", "!", "…"))] == []


def test_the_whole_examples_are_pipelines() -> None:
    blocks = YAML_BLOCK.findall(PAGES["reference/pipeline.md"])
    files = [file for block in blocks if (file := YAML(typ="safe").load(block))]
    assert [file["name"] for file in files] == ["word_count"]
    for file in files:
        Draft202012Validator(schema()).validate(file)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("a {b!r} c", "a &lt;b> c"),
        ("{hint} Known: `{known}`.", "Known: `<known>`."),
        ("`{{a: {b}}}`", "`{a: <b>}`"),
        ("<x> `<y>`", "&lt;x> `<y>`"),
    ],
)
def test_a_template_is_shown_as_people_read_it(words: str, shown: str) -> None:
    assert template(words) == shown
