"""The validated rows of a files source: what Spark reads, and with which reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os.path import commonpath
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from headwater.connectors.contract import METADATA, Context, QueryCheckpoint, RunTask
from headwater.connectors.files.admission import Admission, Admissions, read_by_all
from headwater.connectors.files.admission_record import AdmissionRecord, place_of
from headwater.connectors.files.bad_rows import BINARY, admits, has_texts, required
from headwater.connectors.files.clean_up import FinishedFiles
from headwater.connectors.files.errors import RUN_DIR_PATH_INVALID
from headwater.connectors.files.folders import FILE_FIELDS, PATH, Folders, is_left_to_spark
from headwater.connectors.files.opener import FileOpener, PlannedFiles
from headwater.connectors.files.options import FilesSource
from headwater.connectors.files.source import SourceFiles, united
from headwater.connectors.files.validity import (
    ADDRESS,
    CORRUPT,
    REJECTED,
    TEXT,
    WHOLE_LINE,
    Decoder,
    Validation,
    address,
    encoded_path,
    no_text,
    replayed_texts,
)
from headwater.errors import PipelineError
from headwater.spec import CleanUp
from headwater.spec.paths import as_glob, fixed_folder, is_pattern
from headwater.values import BadRows

_CHOOSES = "pathglobfilter"
# Options about files and lines, not about values.
_ABOUT_FILES = ("linesep", "comment", _CHOOSES, "modifiedafter", "modifiedbefore", "ignoremissingfiles")


@dataclass(frozen=True)
class _Path:
    """One path of the source, with its index."""

    number: int
    path: str
    folders: Folders
    inside: StructType
    """The columns stored in the files."""


@dataclass(frozen=True)
class ValidatedFiles(SourceFiles):
    """A files source whose rows are validated."""

    max_row_bytes: int | None = None

    def rows(self, replayed: Callable[[], DataFrame] | None) -> DataFrame:
        """The rows of all paths; replayed rows belong to their original path."""
        found, left = [], f.lit(True)
        *others, last = self._paths()
        for path in others:
            here = left & _lies_in(path.folders.base)
            left = left & ~here
            found.append(self._below(path, replayed().where(here) if replayed else None))
        return united([*found, self._below(last, replayed().where(left) if replayed else None)])

    def admission(self, readers: Sequence[QueryCheckpoint]) -> Admissions:
        """The task that checks new files before a batch reads them."""
        return Admissions(self._admission(path, readers) for path in self._paths())

    def _admission(self, path: _Path, readers: Sequence[QueryCheckpoint]) -> Admission:
        settings = {**self.options.spark_options(), "mode": "PERMISSIVE"}
        opened = FileOpener(self.spark, self.context.name, self.options.format, path.inside, settings)
        pattern = as_glob(path.path, self.context.root)
        record = AdmissionRecord(self.context.directory.admitted(path.number), pattern)
        record.begin()
        only = self.options.given(_CHOOSES)
        finished = partial(read_by_all, readers, record.folder)
        return Admission(
            self.context.name, pattern, record, opened, opened.stand_in, only=only, finished=finished
        )

    @property
    def _admitted(self) -> bool:
        return admits(self.options, self.context.bad_rows) and not self.context.batch

    def _paths(self) -> list[_Path]:
        sifted, paths = self.context.bad_rows is not BadRows.FAIL, []
        for number, path in enumerate(self.options.path):
            folders = replace(self.folders(path, sifted=sifted), path=ADDRESS, validated=sifted)
            fields = [self.schema[column.name] for column in folders.inside]
            inside = StructType([StructField(each.name, each.dataType) for each in fields])
            paths.append(_Path(number, path, folders, inside))
        return paths

    def _below(self, path: _Path, replayed: DataFrame | None) -> DataFrame:
        decodes = self.options.format not in BINARY
        if decodes:
            decoder = Decoder(self.options.format, path.inside, self.options.spark_options())
        else:
            decoder = Decoder("json", path.inside, {})
        validation = Validation(
            decoder,
            path.folders,
            required(self.options),
            self.max_row_bytes,
            decodes,
            (METADATA,) if self.context.metadata else (),
        )
        if has_texts(self.options, admitted=self._admitted):
            texts = decoder.rows(self._lines(path))
            if replayed is not None:
                more = replayed_texts(replayed).select("*", *self._file_of_replayed)
                texts = texts.unionByName(decoder.replayed(more))
            return validation.texts(self._guarded(texts, path.folders))
        read = self._read(path)
        if replayed is not None:
            read = read.unionByName(_decoded(replayed, decoder).select("*", *self._file_of_replayed))
        return validation.read(self._guarded(read, path.folders))

    def _guarded(self, rows: DataFrame, folders: Folders) -> DataFrame:
        """A file in unexpected directories fails the query if bad rows do."""
        return rows if folders.validated else rows.where(folders.guard)

    def _lines(self, path: _Path) -> DataFrame:
        settings = self.options.spark_options()
        settings = {key: value for key, value in settings.items() if key.lower() in _ABOUT_FILES}
        text = f.col("value")
        if self.options.header:
            rows = self._load_path(path, "csv", "value string", {**settings, **WHOLE_LINE})
            text = f.encode(text, "ISO-8859-1").cast("string")
        else:
            more = {"wholetext": "true"} if self.options.format == "xml" else {}
            rows = self._load_path(path, "text", "value string", {**settings, **more})
        read = rows.select(text.alias(TEXT), f.col(PATH).alias(ADDRESS), *self._file_of_row)
        if not self._admitted:
            return read.withColumn(REJECTED, no_text())
        inside = (
            encoded_path(AdmissionRecord(self._admitted_folder(path.number), path.path).placeholders) + "/"
        )
        stands_in = f.instr(f.col(ADDRESS), inside) > 0
        return read.withColumn(REJECTED, f.when(stands_in, f.col(TEXT)))

    def _read(self, path: _Path) -> DataFrame:
        settings, own, other = self.options.spark_options(), REJECTED, CORRUPT
        if self.options.format not in BINARY:
            settings |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
            own, other = CORRUPT, REJECTED
        schema = StructType([*path.inside, StructField(own, StringType())])
        rows = self._load_path(path, self.options.format, schema, settings)
        address = f.col(PATH).alias(ADDRESS)
        return rows.select(*rows.columns, address, no_text().alias(other), *self._file_of_row)

    @property
    def _file_of_row(self) -> list[Column]:
        return [f.expr(each) for each in self.file_of_row]

    @property
    def _file_of_replayed(self) -> list[Column]:
        """The same for a replayed row, of which only the file name is known."""
        known = {"file_path": f.col(ADDRESS), "file_name": f.regexp_extract(ADDRESS, "[^/]*$", 0)}
        fields = [known.get(name, f.lit(None)).cast(type_).alias(name) for name, type_ in FILE_FIELDS.items()]
        return [f.struct(*fields).alias(METADATA)] if self.context.metadata else []

    def _load_path(
        self, path: _Path, format_: str, schema: StructType | str, settings: dict[str, str]
    ) -> DataFrame:
        if self._admitted:
            folder = self._admitted_folder(path.number)
            if self.context.starts:
                folder.mkdir(parents=True, exist_ok=True)
            # It does not exist before the first start.
            if folder.is_dir():
                # The list is already filtered, and the placeholders of rejected files have different names.
                settings = {key: value for key, value in settings.items() if key.lower() != _CHOOSES}
                reader = self.reader(path.path, schema, format_, settings)
                return reader.option("recursiveFileLookup", "true").load(str(folder))
        return self.load_deep(self.reader(path.path, schema, format_, settings), path.path, path.folders)

    def _admitted_folder(self, number: int) -> Path:
        """The directory with the list of admitted files."""
        folder = self.context.directory.admitted(number)
        if is_pattern(str(folder)):
            place, name = self.context.at("bad_rows"), self.context.name
            raise PipelineError(RUN_DIR_PATH_INVALID.at(place, name=name, folder=str(folder)))
        return folder


def _lies_in(base: str) -> Column:
    """Whether a replayed row is from a file below a directory, or from the file with that name."""
    file = f.col("row.file")
    return f.coalesce((file == base) | file.startswith(base.rstrip("/") + "/"), f.lit(False))


def _decoded(replayed: DataFrame, decoder: Decoder) -> DataFrame:
    """Replayed rows, as Spark's reader would return them."""
    text = f.col("row.value").cast("string")
    read = replayed.select(
        decoder.typed(text).alias("read"), text.alias("text"), f.col("row.file").alias("file")
    )
    # For XML, Spark keeps the whole text, in which the row cannot be identified.
    lost = f.col("read").isNull() if decoder.format != "xml" else f.lit(True)
    corrupt = f.when(lost, f.coalesce(f.col("text"), f.lit(""))).otherwise(f.col("read")[CORRUPT])
    return read.select(
        *(f.col("read")[each.name].alias(each.name) for each in decoder.inside),
        corrupt.alias(CORRUPT),
        f.expr(address("file")).alias(ADDRESS),
        no_text().alias(REJECTED),
    )


def run_tasks(
    spark: SparkSession, options: FilesSource, context: Context, queries: Sequence[QueryCheckpoint]
) -> Iterator[RunTask]:
    """The tasks that check new files, clean up processed files, and adapt planned batches."""
    admitted = admits(options, context.bad_rows)
    if admitted:
        readers = [each for each in queries if context.name in each.sources]
        yield ValidatedFiles(spark, options, context).admission(readers)
    if options.clean_up:
        folder = commonpath(fixed_folder(path, context.root) for path in options.path)
        places = [as_glob(path, context.root) for path in options.path]
        real = [replace(each, places=tuple(map(place_of, each.places))) for each in queries]
        deep, done = is_left_to_spark(options.options), CleanUp(options.archive_dir)
        yield FinishedFiles(context.name, done, Path(folder), places, real, deep=deep)
    yield PlannedFiles(context, len(options.path), queries, admitted)
