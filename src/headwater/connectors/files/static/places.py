"""Where the copy of a listed file goes: below its base, so that key=value folders stay what they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import unquote

from headwater.connectors.context import Unreadable


@dataclass(frozen=True)
class Layout:
    """How a static table lies in its folders, fixed when its columns were."""

    partition_columns: tuple[str, ...]
    """Those that come from key=value folders."""
    columns: tuple[str, ...] = ()
    """All columns of the table."""
    base: Path | None = None
    """The folder from which key=value folders count, where the user named one."""
    recursive: bool = False

    def places(self, roots: Iterable[Path], files: Iterable[Path]) -> Mapping[PurePath, Path]:
        """The files of the table by the places of their copies: the number of the base, then as below it.

        A file whose folders give other columns than the table has is no part of it, as in Spark, where a
        file outside of the key=value folders is passed over. Unreadable where a folder gives a column of the
        table that was thought to be in the files: nothing lay there at the start to tell.
        """
        known, bases = frozenset(roots), dict[Path, int]()
        found: dict[PurePath, Path] = {}
        for file in sorted(files):
            base = self.base or _base(file, known)
            below = file.relative_to(base)
            if self._belongs(below):
                found[PurePath(str(bases.setdefault(base, len(bases)))) / below] = file
        return found

    def _belongs(self, below: PurePath) -> bool:
        if self.recursive:
            return True
        keys = [unquote(part.partition("=")[0]).lower() for part in below.parts[:-1] if "=" in part]
        expected = [column.lower() for column in self.partition_columns]
        if not {column.lower() for column in self.columns}.isdisjoint(set(keys) - set(expected)):
            raise Unreadable(f"{below} lies in folders of another kind than at the start of the run")
        return keys == expected if expected else len(below.parts) == 1


def _base(file: Path, roots: frozenset[Path]) -> Path:
    """The root that a file was found below; the base of a root that is a file is its folder."""
    if file in roots:
        return file.parent
    return next((folder for folder in file.parents if folder in roots), file.parent)
