"""Checks files with Spark's readers, so the result is the same as in the batch that would read them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.checkpoint import LocalStore
from headwater.checkpoint.editors import change_files, uncommitted
from headwater.checkpoint.edits import edit_errors
from headwater.connectors.contract import Context, QueryCheckpoint, RunTask
from headwater.connectors.files import errors
from headwater.connectors.files.admission_record import rejected_files
from headwater.connectors.files.validity import REJECTED, address_of
from headwater.errors import CheckpointError, Problem
from headwater.spec.paths import escaped, local_path

_CONDITION = re.compile(r"\[FAILED_READ_FILE\.(\w+)\]\s*(.*)")
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
_PLACE = re.compile(r"Encountered error while reading file \S+\s*")
_CODE = re.compile(r"\s*SQLSTATE: \w+.*")
_HEADER = re.compile(r"Header: (.*)\n Schema: (.*)")
_LONGEST = 300

_HOLDS = {
    "smallint": ("tinyint",),
    "int": ("tinyint", "smallint"),
    "bigint": ("tinyint", "smallint", "int"),
    "double": ("float",),
}
"""The narrower types in an ORC file that a declared type accepts."""


@dataclass(frozen=True)
class FileOpener:
    """Reads many files in one job; if that fails, bisects them until the bad files are found."""

    spark: SparkSession
    name: str
    """The name of the source."""
    format: str
    inside: StructType
    settings: Mapping[str, str]

    def __call__(self, files: list[str]) -> dict[str, str]:
        """The problem of each unreadable file."""
        if self.format == "csv":
            return {file: wrong for file in files if (wrong := self._failure([file]))}
        # Spark ignores empty files, and reads values of a different type in an ORC file as nulls.
        unseen: dict[str, str] = {}
        for file in files:
            wrong = None
            # Reading reports a missing file.
            with suppress(FileNotFoundError):
                wrong = "file is empty" if os.path.getsize(file) == 0 else None
            if wrong is None and self.format == "orc":
                wrong = self._wrong_type(file)
            unseen |= {file: wrong} if wrong else {}
        return {**unseen, **self._sifted([file for file in files if file not in unseen])}

    def _sifted(self, files: list[str]) -> dict[str, str]:
        wrong = self._failure(files) if files else None
        if wrong is None:
            return {}
        if len(files) == 1:
            return {files[0]: wrong}
        half = len(files) // 2
        return {**self._sifted(files[:half]), **self._sifted(files[half:])}

    def _failure(self, files: list[str]) -> str | None:
        reader = self.spark.read.format(self.format).schema(self.inside).options(**self.settings)
        # Detect corrupt pages by checksum, if the file has checksums.
        reader = reader.option("parquet.page.verify-checksum.enabled", "true")
        try:
            rows = reader.option("recursiveFileLookup", "true").load([escaped(file) for file in files])
            if self.format == "csv":
                # Check only the header; rows are validated separately.
                rows.take(1)
            else:
                rows.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JError) as error:
            said = str(error)
            found = _CONDITION.search(said)
            if found is None:
                # The cause is not a file, or the file is unknown: decide nothing.
                params = {"name": self.name, "says": said.partition("\n")[0]}
                raise CheckpointError(errors.FILES_VALIDATION_FAILED.at(None, **params)) from error
            return _told(said, found[1], found[2])
        return None

    def _wrong_type(self, file: str) -> str | None:
        """The first column whose type in an ORC file does not match the declared type."""
        try:
            reader = self.spark.read.format("orc").option("recursiveFileLookup", "true")
            held = reader.load(escaped(file)).schema
        except (PySparkException, Py4JError):
            # Reading the whole file gives a better error.
            return None
        declared = {each.name.lower(): each.dataType.simpleString() for each in self.inside}
        for each in held:
            found, wanted = each.dataType.simpleString(), declared.get(each.name.lower())
            if wanted not in (None, found) and found not in _HOLDS.get(wanted or "", ()):
                return f"column {each.name} is {found} in the file, but {wanted} in the schema"
        return None

    def stand_in(self, target: Path, says: Mapping[str, str]) -> Path:
        """Write a placeholder file of this format, with one row that describes the rejected file."""
        target.parent.mkdir(parents=True, exist_ok=True)
        file, text = target.with_suffix(f".{self.format}"), json.dumps(says)
        part = target.with_name(f".{target.name}.{uuid4().hex}")
        if self.format == "csv":
            part.write_text(f"{REJECTED}\n{text}\n", encoding="utf-8")
            part.rename(file)
            return file
        rows = self.spark.createDataFrame([(text,)], f"{REJECTED} string").coalesce(1)
        rows.write.format(self.format).save(str(part))
        (written,) = part.glob(f"part-*.{self.format}")
        written.rename(file)
        shutil.rmtree(part)
        return file


def _told(said: str, condition: str, says: str) -> str:
    """The problem of a file, from Spark's error and its cause."""
    header = _HEADER.search(said)
    if header:
        return f"header is {header[1]}, expected {header[2]}"
    text = _CODE.sub("", _PLACE.sub("", says)).strip()
    causes: list[str] = [] if condition.startswith("PARQUET_COLUMN") else _CAUSE.findall(said)
    return " ".join([text, *(cause.strip() for cause in causes[-1:])]).strip()[:_LONGEST]


# Batches that were planned with a different handling of unreadable files.


@dataclass(frozen=True)
class PlannedFiles(RunTask):
    """Adapts a planned batch before its query starts.

    The batch may contain a file that is now rejected, which is replaced with its placeholder. Or it contains a
    placeholder that the source cannot read, because it does not check files: then the query does not start.
    """

    context: Context
    paths: int
    readers: Sequence[QueryCheckpoint]
    admitted: bool

    def before_start(self, query: str, backup: Path) -> list[Problem]:
        return [
            problem
            for reader in self.readers
            if reader.query == query and reader.checkpoint.is_dir()
            for number, name in enumerate(reader.sources)
            if name == self.context.name
            for problem in self._begin(reader, number, backup)
        ]

    def _begin(self, reader: QueryCheckpoint, number: int, backup: Path) -> Iterator[Problem]:
        store, name = LocalStore(reader.checkpoint), self.context.name
        folders = [self.context.directory.admitted(path) for path in range(self.paths)]
        planned = {file.path: local_path(file.path) for file in uncommitted(store, number)}
        if not self.admitted:
            for file in planned.values():
                if file is not None and any(folder in file.parents for folder in folders):
                    place, bad_rows = self.context.at("bad_rows"), self.context.bad_rows.value
                    params = {"sink": reader.query, "name": name, "bad_rows": bad_rows}
                    raise CheckpointError(errors.FILES_BATCH_PENDING.at(place, **params))
            return
        # The record can be long, and most starts have nothing to retry.
        rejected = {
            path: file for folder in folders if planned for path, file in rejected_files(folder).items()
        }
        changes = {
            address: address_of(Path(rejected[str(file)]))
            for address, file in planned.items()
            if str(file) in rejected
        }
        if changes:
            with edit_errors(store):
                change_files(store, number, changes).apply(store, LocalStore(backup))
            files = ", ".join(str(planned[address]) for address in changes)
            params = {"sink": reader.query, "name": name, "files": files, "backup": str(backup)}
            yield errors.FILES_BATCH_REWRITTEN.at(None, **params)
