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
from headwater.errors.catalogue.usage import FOLDER_NOT_EMPTY

TEMPLATE = resources.files("headwater.api") / "templates" / "word_count"
# The name in the project, and the name in the template: a `.gitignore` there would count for this repository.
FILES = {
    "pipeline.yml": "pipeline.yml",
    "lines/first.txt": "lines/first.txt",
    "tests/test_pipeline.yml": "tests/test_pipeline.yml",
    "README.md": "README.md",
    ".gitignore": "gitignore",
}
RUN = "headwater run pipeline.yml --until-idle"


@dataclass(frozen=True)
class InitResult:
    """The files that were made, and what to type next."""

    files: tuple[str, ...]
    next_command: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def init(folder: Path) -> InitResult:
    """Make a word count in a new or empty folder."""
    shown = _shown(folder)
    try:
        if os.path.lexists(folder) and not _is_empty_folder(folder):
            raise UsageProblem(FOLDER_NOT_EMPTY.at(None, path=shown or os.curdir))
        for name, template in FILES.items():
            _write(folder / name, template)
    except OSError as error:
        problem = FOLDER_NOT_WRITABLE.at(None, path=shown or os.curdir, reason=error.strerror or str(error))
        raise EnvironmentProblem(problem) from error
    return InitResult(tuple(os.path.join(shown, name) for name in FILES), _next_command(shown))


def _is_empty_folder(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _write(file: Path, template: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # "x": what came to stand there in the meantime is not ours to overwrite.
    with file.open("xb") as out:
        out.write(TEMPLATE.joinpath(*template.split("/")).read_bytes())


def _shown(folder: Path) -> str:
    """The folder from where the user is; above or elsewhere, as the user wrote it. Empty: right here."""
    relative = os.path.relpath(folder)
    if relative == os.curdir:
        return ""
    return str(folder) if relative.split(os.sep)[0] == os.pardir else relative


def _next_command(shown: str) -> str:
    if not shown:
        return RUN
    # A leading dash would be read as an option.
    safe = os.path.join(os.curdir, shown) if shown.startswith("-") else shown
    return f"cd {shlex.quote(safe)} && {RUN}"
