"""Batches that were planned when the source did something else with files that can't be opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from headwater.checkpoint import LocalStore
from headwater.checkpoint.source_files import change_files, uncommitted
from headwater.connectors.context import Context
from headwater.connectors.files.admission.record import folder_of, rejected_files
from headwater.connectors.files.judging.texts import address_of
from headwater.connectors.upkeep import Moment, Reader
from headwater.errors import CheckpointError, Problem
from headwater.errors.catalogue.files_bad_rows import FILES_PLANNED_REJECTED, FILES_PLANNED_STAND_IN
from headwater.spec.paths import local_path


class PlannedFiles:
    """Makes an unfinished batch fit before its query starts.

    It may name a file that is rejected by now, which is replaced by its stand-in; or a stand-in, which only a
    source that admits files can read: then the query does not start.
    """

    def __init__(self, context: Context, paths: int, readers: Iterable[Reader], *, admitted: bool) -> None:
        self._context = context
        self._folders = [folder_of(context.folder, context.name, number) for number in range(paths)]
        self._readers = {reader.query: reader for reader in readers}
        self._admitted = admitted

    def __call__(self, moment: Moment) -> None:
        """Nothing is to be done between batches."""

    def close(self) -> None:
        """Nothing is held."""

    def begin(self, query: str, backup: Path) -> list[Problem]:
        reader = self._readers.get(query)
        if reader is None or not reader.checkpoint.is_dir():
            return []
        mine = (number for number, name in enumerate(reader.sources) if name == self._context.name)
        return [problem for number in mine for problem in self._begin(reader, number, backup)]

    def _begin(self, reader: Reader, number: int, backup: Path) -> Iterator[Problem]:
        store, name = LocalStore(reader.checkpoint), self._context.name
        planned = {file.path: local_path(file.path) for file in uncommitted(store, number)}
        if not self._admitted:
            for file in planned.values():
                if file is not None and any(folder in file.parents for folder in self._folders):
                    params = {"sink": reader.query, "name": name, "bad_rows": self._context.bad_rows.value}
                    raise CheckpointError(FILES_PLANNED_STAND_IN.at(self._context.at("bad_rows"), **params))
            return
        rejected = {path: file for folder in self._folders for path, file in rejected_files(folder).items()}
        changes = {
            address: address_of(Path(rejected[str(file)]))
            for address, file in planned.items()
            if str(file) in rejected
        }
        if changes:
            change_files(store, number, changes, backup)
            files = ", ".join(str(planned[address]) for address in changes)
            params = {"sink": reader.query, "name": name, "files": files, "backup": str(backup)}
            yield FILES_PLANNED_REJECTED.at(None, **params)
