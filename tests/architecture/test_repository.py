"""What no file of the repository may hold."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.contract import contract

ROOT = Path(__file__).resolve().parents[2]
BUILT = {"__pycache__", "build", "dist", "site", "spark-warehouse", "metastore_db"}
# The classes keep the patterns from matching themselves.
MACHINE_PATH = re.compile(rb"(?<![\w.-])/(?:wor[k]|roo[t]|User[s]/\w+)/")
ADDRESS = re.compile(rb"https?:/[/]")


def repository_files() -> Iterator[Path]:
    """The files git knows or would add; every file where there is no git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        yield from _walk(ROOT)
    else:
        yield from (ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file())


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_file():
            yield path
        elif path.name == ".ci" or not (path.name in BUILT or path.name.startswith(".")):
            yield from _walk(path)


def holding(pattern: re.Pattern[bytes], files: Iterable[Path]) -> list[str]:
    return [str(file.relative_to(ROOT)) for file in files if pattern.search(file.read_bytes())]


def test_no_file_names_a_path_of_one_machine() -> None:
    assert holding(MACHINE_PATH, repository_files()) == []


def test_no_lock_names_a_host() -> None:
    locks = [file for file in repository_files() if file.name.endswith((".lock", "-lock.json"))]
    assert locks
    assert holding(ADDRESS, locks) == []


def test_every_row_of_the_contract_has_an_id_of_its_own() -> None:
    ids = [row.id for row in contract()]
    assert len(ids) == len(set(ids)) > 0
