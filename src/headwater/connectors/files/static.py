"""A static table of files on Spark, with a listing per batch."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path, PurePath
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.connectors.contract import Unreadable
from headwater.connectors.files.snapshots import BatchKey, Snapshot, SnapshotPolicy, take_snapshot
from headwater.spark.callbacks import (
    FileIndex,
    files_of,
    frame_with_index,
    index_of_folders,
    paths_in,
    relation_of,
    roots_of,
)
from headwater.spark.private import JavaObject, accept_calls
from headwater.spark.query import thread_query
from headwater.spec.paths import local_path, plain_path
from headwater.values import Never, Refresh

# The path of the copy of a listed file, relative to its base, which preserves key=value directories.


@dataclass(frozen=True)
class Layout:
    """The directory layout of a static table, fixed together with its columns."""

    partition_columns: tuple[str, ...]
    """The columns from key=value directories."""
    columns: tuple[str, ...] = ()
    """All columns of the table."""
    base: Path | None = None
    """The directory below which key=value directories count, if the user set one."""
    recursive: bool = False

    def places(self, roots: Iterable[Path], files: Iterable[Path]) -> Mapping[PurePath, Path]:
        """The files of the table by the paths of their copies: the number of the base, then the relative path.

        A file whose directories have different partition columns is not part of the table, as in Spark, which
        skips files outside of the key=value directories. Unreadable if a directory provides a column that was
        assumed to be in the files, because there were no files at the start.
        """
        known, bases = frozenset(roots), dict[Path, int]()
        found: dict[PurePath, Path] = {}
        for file in sorted(files):
            # The root that contains it; the base of a root that is a file is its directory.
            root = (folder for folder in file.parents if folder in known and file not in known)
            base = self.base or next(root, file.parent)
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
            raise Unreadable(f"the partition keys of {below} differ from those at the start of the run")
        return keys == expected if expected else len(below.parts) == 1


CLOCK: Callable[[], float] = time.monotonic
_SPARK_ERRORS = (PySparkException, Py4JError)


Load = Callable[[Mapping[str, str], StructType | None], DataFrame]
"""Reads the path with additional options, and with the given columns, if any."""


@dataclass(frozen=True)
class Version:
    """A listing that no longer changes."""

    location: JavaObject
    """Spark's index of its files."""
    files: tuple[tuple[str, int, int], ...] = ()
    """Path, size and time of each file that is read in place."""
    snapshot: Snapshot | None = None
    rows: DataFrame | None = None
    """Its rows, if Spark caches them."""
    name: str = field(default_factory=lambda: f"listing {uuid.uuid4().hex}")

    def written_over(self) -> Path | None:
        return self.snapshot.written_over() if self.snapshot else None

    def drop(self) -> None:
        if self.rows is not None:
            # A terminated JVM caches nothing.
            with suppress(*_SPARK_ERRORS, OSError):
                self.rows.unpersist()
        if self.snapshot is not None:
            self.snapshot.drop()


class StaticFiles:
    """One path of a static source: a table with fixed columns, whose files change between batches.

    `rows` is the DataFrame that queries use. Its relation has a custom index, which returns the listing that
    `SnapshotPolicy` assigned to the batch. Local files are copied: the batch reads copies in the run directory,
    so a file can be removed or replaced at any time. On other file systems, files are read in place.

    With `cache`, each listing has a separate relation, whose rows Spark caches after the first read. The custom
    index is equal to the relation of the listing that its batch is bound to, so Spark uses the cached rows, or
    reads the files if there are none yet.
    """

    def __init__(
        self,
        spark: SparkSession,
        load: Load,
        settings: Mapping[str, str],
        folder: Path,
        *,
        refresh: Refresh,
        cache: bool,
        empty_if_missing: bool,
    ) -> None:
        self._spark = spark
        self._load = load
        self._settings = {key: value for key, value in settings.items() if key.lower() != "basepath"}
        self._folder = folder / uuid.uuid4().hex
        self._cache = cache
        # Data that is read for a whole run may be large, so it is not copied.
        self._once = isinstance(refresh, Never)
        self._empty_if_missing = empty_if_missing
        self._numbers = count()
        self._troubles: dict[str, str] = {}
        self._news: Path | None = None
        self._told = False
        accept_calls(spark)
        first = load({}, None)
        self._columns = first.schema
        self._relation = relation_of(first)
        self._first = self._relation.location()
        self._in_place = not all(root.startswith("file:") for root in roots_of(self._first))
        given = {key.lower(): value for key, value in settings.items()}
        base = None if self._in_place else given.get("basepath")
        self._layout = Layout(
            tuple(self._relation.partitionSchema().fieldNames()),
            tuple(self._columns.names),
            _local(base) if base else None,
            recursive=given.get("recursivefilelookup", "").lower() == "true",
        )
        self._listings: SnapshotPolicy[Version] = SnapshotPolicy(
            refresh, self._take, Version.drop, lambda: CLOCK(), self._holds
        )
        index = FileIndex(f"static {uuid.uuid4().hex}", self._first, self._location, self._is_bound_to)
        # With the alias, Spark looks for cached rows a second time, after the first lookup created new ones.
        self.rows = frame_with_index(spark, self._relation, index).alias("static")

    def start(self) -> None:
        """Take the first listing, and remove what a killed run has left."""
        shutil.rmtree(self._folder.parent, ignore_errors=True)
        self._listings.start()

    def again(self, query: str) -> None:
        """Retry the batch of this query with a new listing."""
        self._listings.again(query)

    def outdated(self, query: str) -> bool:
        """Whether a file was overwritten while the last batch of this query read it."""
        version = self._listings.bound_to(query)
        return version is not None and version.written_over() is not None

    def news(self) -> str | None:
        """The first overwritten file, reported once."""
        if self._news is None or self._told:
            return None
        self._told = True
        return str(self._news)

    def trouble(self, query: str) -> str | None:
        """Why the last batch of a query got no listing."""
        return self._troubles.get(query)

    def close(self) -> None:
        """Drop all listings."""
        self._listings.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _version(self) -> Version | None:
        # Spark calls Python on the thread of the query, so these are the properties of the query.
        found = thread_query(self._spark.sparkContext)
        key = BatchKey(found.query_id, found.batch_id) if found and found.batch_id else None
        try:
            return self._listings.of(key)
        except (Unreadable, *_SPARK_ERRORS) as error:
            if key is not None:
                self._troubles[key.query] = str(error).partition("\n")[0].rstrip(". ")
            raise

    def _location(self) -> JavaObject:
        version = self._version()
        return version.location if version else self._first

    def _is_bound_to(self, other: str) -> bool:
        version = self._version() if other.startswith("listing ") else None
        return version is not None and version.name == other

    def _holds(self, version: Version) -> bool:
        file = version.written_over()
        if file is not None and self._news is None:
            self._news = file
        return file is None

    def _take(self, known: Version | None) -> Version:
        version = self._listed_in_place(known) if self._in_place else self._copied(known)
        if version is known or not self._cache:
            return version
        fixed = FileIndex(version.name, version.location, lambda: version.location, version.name.__eq__)
        return replace(version, rows=frame_with_index(self._spark, self._relation, fixed).persist())

    def _copied(self, known: Version | None) -> Version:
        before = known.snapshot if known else None
        folder = self._folder / str(next(self._numbers))
        snapshot = take_snapshot(self._listed, folder, before, link=self._once)
        if known and snapshot is before:
            return known
        return Version(self._index_of(snapshot), snapshot=snapshot)

    def _listed(self) -> Mapping[PurePath, Path]:
        """Every file below the paths; the layout selects those that belong to the table."""
        try:
            location = relation_of(self._load({"recursiveFileLookup": "true"}, self._columns)).location()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            if self._empty_if_missing:
                return {}
            raise FileNotFoundError(str(error)) from error
        except Py4JJavaError as error:
            # A directory was deleted while Spark listed it; the next attempt lists the current state.
            if is_about_a_missing_file(error):
                raise FileNotFoundError(str(error).partition("\n")[0]) from error
            raise
        roots = [_local(root) for root in roots_of(location)]
        paths = (local_path(file) for file in paths_in(self._spark, location))
        return self._layout.places(roots, [path for path in paths if path])

    def _index_of(self, snapshot: Snapshot) -> JavaObject:
        """Spark's index of the copies, with the columns of the table."""
        bases = {place.parts[0] for place in snapshot.files} or {"0"}
        (snapshot.folder / "0").mkdir(exist_ok=True)
        folders = [(snapshot.folder / base).as_uri() for base in sorted(bases)]
        index = index_of_folders(self._spark, folders, self._settings, self._relation.schema())
        # Evaluated now, so an invalid partition value is reported as such.
        index.partitionSchema()
        return index

    def _listed_in_place(self, known: Version | None) -> Version:
        location = relation_of(self._load({}, self._columns)).location()
        if location.partitionSchema() != self._first.partitionSchema() and len(location.inputFiles()):
            raise Unreadable("its partition columns differ from those at the start")
        # Changes matter only if rows are cached: the listing itself costs nothing more.
        files = files_of(location) if self._cache else ()
        return known if known and self._cache and known.files == files else Version(location, files)


def _local(path: str) -> Path:
    """A local path that may start with `file:`."""
    return Path(plain_path(path)).absolute()


def is_about_a_missing_file(error: Py4JJavaError) -> bool:
    """Whether a missing file or directory is among the causes of a Java error."""
    cause = error.java_exception
    while cause is not None:
        if str(cause.getClass().getName()) == "java.io.FileNotFoundException":
            return True
        cause = cause.getCause()
    return False
