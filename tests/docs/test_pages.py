"""Everything that the documentation shows is what happens: its files are made, its commands are run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pyspark import SparkContext
from ruamel.yaml import YAML
from typer.main import get_command

from headwater.cli.main import app
from headwater.engine.pipeline_file import load
from tests.docs.pages import DOCS, ROOT, Block, Command, blocks, commands, differences
from tests.docs.terminal import Terminal

PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCKS = [block for page in PAGES for block in blocks(page)]
FOLLOWED = [page for page in PAGES if any(block.kind == "console" for block in blocks(page))]
OUTSIDE = re.compile(r"(pip install|make|git clone|cd|protoc|#) ")
NOT_FOLLOWED = (DOCS / "reference", DOCS / "contribute" / "contract.md")
"""Pages that show forms and not examples."""
MOST_PROCESSES = 4


def follow(page: Path, terminal: Terminal) -> Iterator[str]:
    """Make the page's files and type its commands; every difference from what it shows."""
    typed = ""
    for block in blocks(page):
        if block.title:
            file = terminal.home / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        for command in commands(block) if block.kind == "console" else ():
            if terminal.exit_code and command.text != "echo $?":
                yield f"{typed} ended with {terminal.exit_code}, and the page does not say so"
            yield from terminal.type(command)
            typed = f"{command.place}: {command.text}"
    if terminal.exit_code:
        yield f"{typed} ended with {terminal.exit_code}, and the page does not say so"


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_following_a_page_gives_what_it_shows(
    page: Path, context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with closing(Terminal(home, monkeypatch)) as terminal:
        found = list(follow(page, terminal))
    assert not found, "\n".join(found)


def test_few_commands_need_a_process_of_their_own() -> None:
    shown = [command for block in BLOCKS if block.kind == "console" for command in commands(block)]
    assert 0 < len([command for command in shown if command.stopped_by or command.serves]) <= MOST_PROCESSES


def test_commands_stand_where_they_are_run() -> None:
    """A `headwater …` line outside of a console block would be shown and never tried."""
    others = [block for block in BLOCKS if block.kind != "console" and not _is_form(block)]
    assert [str(block) for block in others if re.search(r"^(\$ )?headwater ", block.text, re.MULTILINE)] == []


def test_shell_blocks_only_hold_what_comes_before_a_project() -> None:
    lines = [
        (block, line)
        for block in BLOCKS
        if block.kind == "sh" and not _is_form(block)
        for line in block.text.splitlines()
    ]
    assert [f"{block}: {line}" for block, line in lines if line and not OUTSIDE.match(line)] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {line.split()[1] for _, line in lines if line.startswith("make ")} <= targets


def test_whole_pipelines_that_are_only_shown_are_well_formed(tmp_path: Path) -> None:
    shown = [block for block in BLOCKS if block.kind == "yaml" and not block.title and _is_whole(block)]
    assert shown
    for number, block in enumerate(shown):
        folder = tmp_path / str(number)
        for source in YAML(typ="safe").load(block.text)["sources"].values():
            (folder / source.get("path", "")).mkdir(parents=True, exist_ok=True)
        (folder / "pipeline.yml").write_text(block.text, encoding="utf-8")
        load(folder / "pipeline.yml")


def test_what_is_shown_of_an_example_stands_in_its_file() -> None:
    """A block whose title is a path below `examples/` is that file, or lines of it that follow each other."""
    shown = [block for block in BLOCKS if block.title.startswith("examples/")]
    assert shown
    assert [str(block) for block in shown if not _is_part(block.text, ROOT / block.title)] == []


def test_python_that_is_only_shown_compiles() -> None:
    for block in BLOCKS:
        if block.kind == "python" and not _is_form(block):
            compile(block.text, str(block), "exec")


def test_commands_named_in_the_text_exist_with_their_options() -> None:
    named = [
        (page, words.split()[1:])
        for page in PAGES
        for words in re.findall(r"`(headwater [^`\n]+)`", page.read_text(encoding="utf-8"))
    ]
    assert named
    for page, words in named:
        command: Any = get_command(app)
        for word in words:
            if hasattr(command, "commands"):
                assert word in command.commands, f"{page.name}: headwater {' '.join(words)}"
                command = command.commands[word]
        known = {
            each for parameter in command.params for each in (*parameter.opts, *parameter.secondary_opts)
        }
        # What comes after `--` belongs to a script.
        own = takewhile(lambda word: word != "--", words)
        used = {word.split("=")[0] for word in own if word.startswith("--")}
        assert used <= known | {"--help"}, f"{page.name}: headwater {' '.join(words)}"


def _is_part(text: str, file: Path) -> bool:
    """Whether a text is a part of a file, perhaps moved to the left as a whole."""
    part, lines = text.splitlines(), file.read_text(encoding="utf-8").splitlines()
    places = range(len(lines) - len(part) + 1)
    return any(dedent("\n".join(lines[at : at + len(part)])) == dedent("\n".join(part)) for at in places)


def _is_form(block: Block) -> bool:
    return any((ROOT / block.page).is_relative_to(place) for place in NOT_FOLLOWED)


def _is_whole(block: Block) -> bool:
    declared = YAML(typ="safe").load(block.text)
    return isinstance(declared, dict) and {"name", "sources", "sinks"} <= declared.keys()


@pytest.mark.parametrize(
    ("said", "printed", "same"),
    [
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a … c"], ["a b c"], True),
        (["a", "b"], ["b", "a"], False),
        (["a"], ["a", "b"], False),
    ],
)
def test_output_is_compared_line_by_line(said: list[str], printed: list[str], same: bool) -> None:
    assert (differences(Command("cat x", tuple(said), "page:1"), printed) == []) is same


@pytest.mark.parametrize(
    ("said", "printed", "same"),
    [
        (["1 a: x", "2 b: y"], ["2 b: y", "1 a: x"], True),
        (["1 a: x", "1 a: y"], ["1 a: y", "1 a: x"], False),
        (["1 a: x", "…"], ["1 a: v", "1 a: x", "1 b: z"], True),
        (["1 a: x"], ["1 a: x", "1 b: z"], False),
    ],
)
def test_queries_of_a_run_are_compared_each_by_itself(
    said: list[str], printed: list[str], same: bool
) -> None:
    def at(lines: list[str]) -> list[str]:
        return [f"2026-01-01T00:00:0{line[0]}.000Z {line[2:]}" for line in lines]

    command = Command(
        "headwater run x.yml", tuple("…" if line == "…" else at([line])[0] for line in said), "p:1"
    )
    assert (differences(command, at(printed)) == []) is same
