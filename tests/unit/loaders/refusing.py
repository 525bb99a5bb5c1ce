"""Wrong pipeline files and what they must be told, written as one text.

A case is YAML with marks: `#! HW-CODE` at the end of a line says which problem is expected there, and
`#! HW-CODE@7 word` also its column and a word of its text. The marks are taken out before the file is
written. What a pipeline needs and the case leaves out is added below it, so that lines stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import Problem

MARK = re.compile(r"[ ]*#! (HW-[A-Z0-9-]+)(?:@(\d+))?(?: ([^#\n]+?))?(?=[ ]*#!|$)")
NEEDED = {
    "name": "name: p",
    "sources": "sources: {clicks: {connector: rate}}",
    "sinks": "sinks: {out: {reads: clicks, connector: noop}}",
}
FILES = {
    "in/one.json": '{"id": 1}\n',
    "in/deep/two.json": '{"id": 2}\n',
    "code.py": (
        "from os.path import join\n\n\n"
        "def good(clicks): ...\n\n\n"
        "def unknown(nothing): ...\n\n\n"
        "def star(*tables): ...\n\n\n"
        "def keys(**tables): ...\n\n\n"
        "def first(second): ...\n\n\n"
        "def second(first): ...\n\n\n"
        "value = 3\n"
    ),
    "broken.py": "def good(clicks)\n    return clicks\n",
    "good.ddl": "id int, at timestamp",
    "bad.ddl": "id integr",
    "bad.json": "{}",
}
JARGON = (
    "Input should", "input should", "validation error", "type=", "Value error", "instance of",
    "Traceback", "pydantic", "NoneType", "<class", "Field required", "Extra inputs", "string_type",
    "dictionary", "tuple", "None",
)  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """One problem that must be told: its code and line, by wish its column and a word of its text."""

    code: str
    line: int
    column: int | None = None
    word: str = ""

    def is_told_by(self, problem: Problem) -> bool:
        place = problem.place
        return (
            place is not None
            and (problem.code, place.line) == (self.code, self.line)
            and self.column in (None, place.column)
            and self.word.lower() in f"{problem.message} {problem.hint}".lower()
        )


def expected(text: str) -> list[Expected]:
    """The marks of a case, in the order of the file."""
    return [
        Expected(mark[1], number, int(mark[2]) if mark[2] else None, mark[3] or "")
        for number, line in enumerate(text.splitlines(), start=1)
        for mark in MARK.finditer(line)
    ]


def bare(text: str) -> str:
    """The file of a case without its marks."""
    return "".join(f"{MARK.sub('', line)}\n" for line in text.splitlines())


def written(text: str) -> str:
    """The file of a case: without marks, with what else a pipeline needs."""
    lines = bare(text).splitlines()
    present = {line.removeprefix("# ").partition(":")[0] for line in lines}
    return "\n".join([*lines, *(line for key, line in NEEDED.items() if key not in present)]) + "\n"


def project(folder: Path, pipeline: str) -> Path:
    """A project folder with the pipeline file and the files that cases name."""
    for name, content in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    file = folder / "pipeline.yml"
    file.write_text(pipeline, encoding="utf-8")
    return file


def unclear(problems: list[Problem]) -> Iterator[str]:
    """What a user could not make sense of."""
    for problem in problems:
        text = f"{problem.message} {problem.hint}"
        yield from (f"{problem.code}: {word!r} in {text}" for word in JARGON if word in text)
        if len(problem.hint) < 8 or not problem.hint.endswith((".", "?")):
            yield f"{problem.code}: no remedy in {text}"
        if re.search(r"\{'|\['|\('", problem.message):
            yield f"{problem.code}: a value of Python's in {problem.message}"
