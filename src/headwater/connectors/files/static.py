"""A static table of files on Spark, whose listing is decided anew for each batch."""

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
from headwater.spec.paths import local_path, plain_path
from headwater.values import Never, Refresh

# Where the copy of a listed file goes: below its base, so that key=value folders stay what they are.


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
            # The root that it was found below; the base of a root that is a file is its folder.
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
            raise Unreadable(f"{below} lies in folders of another kind than at the start of the run")
        return keys == expected if expected else len(below.parts) == 1


BATCH_ID, QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"
CLOCK: Callable[[], float] = time.monotonic
_SPARK_ERRORS = (PySparkException, Py4JError)


Load = Callable[[Mapping[str, str], StructType | None], DataFrame]
"""Reads the path with further options, and with the columns that are given, if any."""


@dataclass(frozen=True)
class Version:
    """A listing that does not change any more."""

    location: JavaObject
    """Spark's own index of its files."""
    files: tuple[tuple[str, int, int], ...] = ()
    """What was listed in place and is kept: path, size and time of each file."""
    snapshot: Snapshot | None = None
    rows: DataFrame | None = None
    """Its rows, where Spark keeps them."""
    name: str = field(default_factory=lambda: f"listing {uuid.uuid4().hex}")

    def written_over(self) -> Path | None:
        return self.snapshot.written_over() if self.snapshot else None

    def drop(self) -> None:
        if self.rows is not None:
            # A JVM that is gone keeps nothing.
            with suppress(*_SPARK_ERRORS, OSError):
                self.rows.unpersist()
        if self.snapshot is not None:
            self.snapshot.drop()


class StaticFiles:
    """One path of a static source: a table whose columns are fixed, and whose files change between batches.

    `rows` is the DataFrame that queries are made of. Its relation has an index of ours, which answers every
    batch with the one listing that `SnapshotPolicy` gives it. Of local files a snapshot is taken: the batch
    reads copies in the run folder, so that a file may be removed or replaced at any time. Elsewhere files are
    read in place.

    With `cache`, each listing has a relation of its own, whose rows Spark keeps once they were read. Our
    index says that it equals the relation of the listing that its batch is bound to, and no other, so Spark
    puts the kept rows in its place, or reads the files where there are none yet.
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
        # What is read for a whole run may be large, so it is not copied.
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
        # The name around it gives Spark a second look at the kept rows, after the first has made new ones.
        self.rows = frame_with_index(spark, self._relation, index).alias("static")

    def start(self) -> None:
        """Take the first listing; whatever a run that was killed has left is removed."""
        shutil.rmtree(self._folder.parent, ignore_errors=True)
        self._listings.start()

    def again(self, query: str) -> None:
        """The batch of this query runs again, with a new listing."""
        self._listings.again(query)

    def outdated(self, query: str) -> bool:
        """Whether a file was written over while the last batch of this query read it."""
        version = self._listings.bound_to(query)
        return version is not None and version.written_over() is not None

    def news(self) -> str | None:
        """The first file that was found written over, told once."""
        if self._news is None or self._told:
            return None
        self._told = True
        return str(self._news)

    def trouble(self, query: str) -> str | None:
        """Why the last batch of a query could not be given a listing."""
        return self._troubles.get(query)

    def close(self) -> None:
        """Drop everything that is kept."""
        self._listings.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _version(self) -> Version | None:
        # Python answers on the thread that Spark asks on, so these are the query's own properties.
        context = self._spark.sparkContext
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        key = BatchKey(query, batch) if query and batch else None
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
        """Every file below the paths; which of them belong to the table is for the layout to say."""
        try:
            location = relation_of(self._load({"recursiveFileLookup": "true"}, self._columns)).location()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            if self._empty_if_missing:
                return {}
            raise FileNotFoundError(str(error)) from error
        except Py4JJavaError as error:
            # A folder went while Spark looked into it; what is there now is listed next.
            if is_about_a_missing_file(error):
                raise FileNotFoundError(str(error).partition("\n")[0]) from error
            raise
        roots = [_local(root) for root in roots_of(location)]
        paths = (local_path(file) for file in paths_in(self._spark, location))
        return self._layout.places(roots, [path for path in paths if path])

    def _index_of(self, snapshot: Snapshot) -> JavaObject:
        """Spark's index of the copies, with the columns that the table has."""
        bases = {place.parts[0] for place in snapshot.files} or {"0"}
        (snapshot.folder / "0").mkdir(exist_ok=True)
        folders = [(snapshot.folder / base).as_uri() for base in sorted(bases)]
        index = index_of_folders(self._spark, folders, self._settings, self._relation.schema())
        # Looked at now, so that a folder whose value does not fit its column is told as that.
        index.partitionSchema()
        return index

    def _listed_in_place(self, known: Version | None) -> Version:
        location = relation_of(self._load({}, self._columns)).location()
        if location.partitionSchema() != self._first.partitionSchema() and len(location.inputFiles()):
            raise Unreadable("its key=value folders give other columns than at the start")
        # Whether anything has changed matters only where rows are kept: a listing itself costs nothing more.
        files = files_of(location) if self._cache else ()
        return known if known and self._cache and known.files == files else Version(location, files)


def _local(path: str) -> Path:
    """A local path that may begin with `file:`."""
    return Path(plain_path(path)).absolute()


def is_about_a_missing_file(error: Py4JJavaError) -> bool:
    """Whether Java failed because a file or folder was gone, however deep in its causes."""
    cause = error.java_exception
    while cause is not None:
        if str(cause.getClass().getName()) == "java.io.FileNotFoundException":
            return True
        cause = cause.getCause()
    return False
