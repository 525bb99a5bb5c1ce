"""Everything that users read uses the fixed vocabulary: docs, strings of the code, examples, templates, help."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(```+).*?^\1\s*$|`[^`\n]+`|<!--.*?-->", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\([^)]*\)")

PHRASES = {
    "mend": r"mend(s|ed|ing)?",
    "set aside": r"set(s|ting)?( \w+| such \w+)? aside",
    "feed again": r"(fed|feeds?) (them )?again",
    "told": r"(is|are|was|were|be|unless|if not|as) (told|said)|told apart|tells? apart",
    "go on": r"go(es|ing)? on",
    "anew": r"anew",
    "for ever": r"for ever",
    "by itself": r"by (itself|themselves)",
    "at once": r"at once",
    "finished data": r"finished (data|tables?)",
    "is not there": r"(is|are) not there|what is there|that is there",
    "looks after": r"look(s|ed|ing)? after",
    "is wanted": r"(is|are) wanted",
    "can't be had": r"can('t|not) be had",
    "the way out": r"the way out",
    "of yours": r"of yours",
    "pass over": r"pass(es|ed)? over",
    "made again": r"made again",
    "take out": r"take(s|n)? (it|them|one of them|one of the two|the setting|`[^`]+`)? ?out",
    "leave out": r"(leave|leaves|left)( it| them)? out|leave `[^`]+` out",
    "take away": r"take(s|n)?( \w+)? away",
    "move away": r"move (it|them|the \w+) away",
    "put back": r"put (it|them|the \w+) back",
    "becomes of": r"becomes? of",
    "all right": r"all right",
    "judge": r"judge(d|s)?|judging",
    "verdict": r"verdicts?",
    "is refused": r"(is|are|was|were) refused",
    "to blame": r"to blame",
    "stands": r"stand(s|ing)? (at|in|on|for ever|against|there|here|nowhere|beside|between|apart)|stood",
    "partner": r"partners?",
    "comes again": r"com(e|es|ing) (again|twice|out)",
    "brings": r"brings?|brought",
    "good to know": r"good to know|nothing is to be done",
    "in good order": r"in good order",
    "(s)": r"[a-z]\(s\)",
    "sees to": r"sees? to (it|that)|see whether",
    "in place of": r"in place of|in its place",
    "beside": r"beside",
    "lies": r"lies|lie",
    "hangs on": r"hangs? on",
    "whoever": r"whoever|nobody",
    "hand on": r"hand(s|ed)? (on|over|out)",
    "in clear": r"in clear",
    "work out": r"work(s|ed)? (\w+ )?out",
    "so many": r"so many",
    "goes by": r"goes by",
    "word for word": r"word for word",
    "sign of life": r"signs? of life",
    "other than": r"another \w+ than",
    "sentence-final too": r", too(?=[.;:])",
}
"""Each phrase with a pattern for whole words; `docs/reference/glossary.md` has the words to use."""
PATTERNS = {
    name: re.compile(rf"(?<![\w-])(?:{text})(?![\w-])", re.IGNORECASE) for name, text in PHRASES.items()
}
PATTERNS["(s)"] = re.compile(PHRASES["(s)"])
PATTERNS["sentence-final too"] = re.compile(PHRASES["sentence-final too"])


def found(text: str) -> Iterator[str]:
    """The phrases in a text."""
    flat = " ".join(text.split())
    yield from (
        f"{name}: …{flat[max(0, m.start() - 30) : m.end() + 20]}…"
        for name, p in PATTERNS.items()
        for m in p.finditer(flat)
    )


def strings(file: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a Python file, docstrings included, with their lines."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def prose(page: Path) -> str:
    """A page without its code and the targets of its links."""
    return LINK.sub("]", FENCE.sub(" ", page.read_text(encoding="utf-8")))


PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
    *(ROOT / "demo").rglob("*.md"),
]
FILES = [
    file
    for folder in ("src", "demo", "scripts", "bench")
    for file in (ROOT / folder).rglob("*.py")
    if not {"work", "__pycache__"} & set(file.relative_to(ROOT).parts)
]
WRITTEN = {".yml", ".yaml", ".toml", ".md", ".py", ".service", ".sh", ""}
TEXTS = [
    ROOT / "Makefile",
    *(ROOT / "scripts").glob("*.sh"),
    *(
        file
        for folder in ("demo", "examples", "src/headwater/api/templates")
        for file in sorted((ROOT / folder).rglob("*"))
        if file.is_file()
        and file.suffix in WRITTEN
        and not {"work", "__pycache__"} & set(file.relative_to(ROOT).parts)
    ),
]
"""Files of which every line counts: comments, names of tests, help texts."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_uses_the_fixed_vocabulary(page: Path) -> None:
    assert list(found(prose(page))) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_the_strings_of_a_file_use_the_fixed_vocabulary(file: Path) -> None:
    assert [f"line {line}: {each}" for line, text in strings(file) for each in found(text)] == []


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_the_text_of_a_file_uses_the_fixed_vocabulary(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert [f"line {n}: {each}" for n, line in enumerate(text.splitlines(), 1) for each in found(line)] == []


@pytest.mark.parametrize("text", ["It is set aside.", "It goes on.", "3 row(s)", "Mend it, too."])
def test_a_phrase_is_found(text: str) -> None:
    assert list(found(text))
