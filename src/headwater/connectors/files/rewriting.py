"""Rewriting small files as one: the rows that come out are exactly those that went in."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from headwater.connectors.files.compaction import STAGING, Rewritten
from headwater.connectors.files.text_joining import TextFiles
from headwater.spec.paths import as_glob

TYPED = ("avro", "orc", "parquet")
_WHOLE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


class RowsDifferError(Exception):
    """The rewritten files do not hold what the small ones hold."""


@dataclass(frozen=True)
class Rewriter:
    """Rewrites files of one sink. Typed formats are read and written; text is joined byte by byte.

    Text is not parsed, because what comes out could differ: numbers are written in another way, empty values
    become nulls, columns of an older schema get lost.
    """

    spark: Any
    folder: Path
    format: str
    options: Mapping[str, str]
    """What the sink writes with."""

    def see_jars(self) -> None:
        """Let this thread see the jars that the session got after its JVM was started."""
        loader = self.spark._jsparkSession.sharedState().jarClassLoader()
        self.spark._jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)

    def rewrite(self, group: Iterable[str]) -> Iterator[Rewritten]:
        """One new file for all that fit together; a file that fits no other stays."""
        files = [self.folder / name for name in group]
        for alike in self._alike(files):
            if len(alike) > 1:
                staging = self.folder / STAGING / uuid4().hex
                write = self._write if self.format in TYPED else self._join
                write(alike, staging)
                names = tuple(file.relative_to(self.folder).as_posix() for file in alike)
                yield Rewritten(names, _written(staging))

    def _alike(self, files: list[Path]) -> list[list[Path]]:
        """Files that can become one: avro with one schema, text with the same around its rows."""
        if self.format in ("orc", "parquet"):
            return [files]
        key: Callable[[Path], Hashable] = self._schema if self.format == "avro" else self._text.frame
        alike: dict[Hashable, list[Path]] = {}
        for file in files:
            alike.setdefault(key(file), []).append(file)
        return list(alike.values())

    def _schema(self, file: Path) -> str:
        return str(self._read([file]).schema.json())

    def _read(self, files: Iterable[Path]) -> Any:
        # Files of an older schema may lack columns, or have some that the query has no more.
        reader = self.spark.read.format(self.format).options(mergeSchema="true", **_WHOLE)
        return reader.load([as_glob(str(file), file) for file in files])

    def _write(self, files: list[Path], staging: Path) -> None:
        rows = self._read(files)
        rows.coalesce(1).write.format(self.format).options(**self.options).save(str(staging))
        before, after = rows.count(), self._read(_written(staging)).count()
        if before != after:
            raise RowsDifferError(f"{before} rows became {after}")

    def _join(self, files: list[Path], staging: Path) -> None:
        staging.mkdir(parents=True)
        frame = self._text.frame(files[0])
        self._text.join(files, staging / f"part{frame.suffix}", frame)

    @property
    def _text(self) -> TextFiles:
        return TextFiles(self.spark, self.format, self.options)


def _written(staging: Path) -> tuple[Path, ...]:
    """The files that were written, on the disk for good."""
    files = tuple(sorted(file for file in staging.iterdir() if file.name.startswith("part")))
    for file in files:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    return files
