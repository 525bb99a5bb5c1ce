"""`headwater init`: a new project that runs at once."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from headwater.errors import EnvironmentProblem, UsageProblem
from headwater.errors.catalogue.environment import FOLDER_NOT_WRITABLE
from headwater.errors.catalogue.usage import FOLDER_NOT_EMPTY, UNKNOWN_TEMPLATE
from headwater.values import nearest

TEMPLATES = resources.files("headwater.api") / "templates"


@dataclass(frozen=True)
class Template:
    """A kind of project: its folder among the templates, its data, and what to type first."""

    folder: str
    data: str
    first_command: str

    @property
    def files(self) -> dict[str, str]:
        """Names in the project and in the template, where a `.gitignore` would count for this repository."""
        names = ("pipeline.yml", self.data, "tests/test_pipeline.yml", "README.md")
        return {**{name: name for name in names}, ".gitignore": "gitignore"}


WORD_COUNT = Template("word_count", "lines/first.txt", "headwater run pipeline.yml --until-idle")
KAFKA = Template(
    "kafka",
    "data/clicks.jsonl",
    "headwater dev kafka --topics clicks:2 --produce data/clicks.jsonl --topic clicks --key campaign",
)
KINDS = {"word-count": WORD_COUNT, "kafka": KAFKA}


@dataclass(frozen=True)
class InitResult:
    """The files that were made, and what to type next."""

    files: tuple[str, ...]
    next_command: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def init(folder: Path, kind: str = "word-count") -> InitResult:
    """Make a project of a kind in a new or empty folder."""
    template, shown = _template(kind), _shown(folder)
    try:
        if os.path.lexists(folder) and not _is_empty_folder(folder):
            raise UsageProblem(FOLDER_NOT_EMPTY.at(None, path=shown or os.curdir))
        for name, source in template.files.items():
            _write(folder / name, f"{template.folder}/{source}")
    except OSError as error:
        problem = FOLDER_NOT_WRITABLE.at(None, path=shown or os.curdir, reason=error.strerror or str(error))
        raise EnvironmentProblem(problem) from error
    files = tuple(os.path.join(shown, name) for name in template.files)
    return InitResult(files, _next_command(shown, template.first_command))


def _template(kind: str) -> Template:
    if kind not in KINDS:
        near = nearest(kind, KINDS)
        hint = f"Did you mean `{near}`? " if near else ""
        raise UsageProblem(UNKNOWN_TEMPLATE.at(None, name=kind, hint=hint, known=", ".join(KINDS)))
    return KINDS[kind]


def _is_empty_folder(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _write(file: Path, source: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # "x": what came to stand there in the meantime is not ours to overwrite.
    with file.open("xb") as out:
        out.write(TEMPLATES.joinpath(*source.split("/")).read_bytes())


def _shown(folder: Path) -> str:
    """The folder from where the user is; above or elsewhere, as the user wrote it. Empty: right here."""
    relative = os.path.relpath(folder)
    if relative == os.curdir:
        return ""
    return str(folder) if relative.split(os.sep)[0] == os.pardir else relative


def _next_command(shown: str, first: str) -> str:
    if not shown:
        return first
    # A leading dash would be read as an option.
    safe = os.path.join(os.curdir, shown) if shown.startswith("-") else shown
    return f"cd {shlex.quote(safe)} && {first}"
