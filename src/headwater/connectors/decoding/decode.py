"""Decodes bytes into columns on Spark and validates each row.

The parsed value is a separate column, from which the user's columns and the validity are derived. Spark
would skip unused fields of a parse and miss their errors. It does not if the parse has options, so each has
one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import expr, udf

from headwater.connectors.contract import Context, Reason, ValidatedRows
from headwater.connectors.decoding import executors
from headwater.connectors.decoding.formats import Csv, Json, Raw, Reading, Step, Text, Validity, named, text
from headwater.connectors.decoding.options import MESSAGE_COLUMNS, Decoded, Decoding, Registry
from headwater.connectors.decoding.schemas import (
    AVRO_PACKAGE_MISSING,
    REGISTRY_DIR_NOT_FOUND,
    REGISTRY_UNREACHABLE,
)
from headwater.connectors.options import file_bytes, file_text, hidden, option_texts, revealed
from headwater.errors import PipelineError, Place
from headwater.spark.functions import JarFunctions, jar_functions
from headwater.spec.schema import backticked

# The executors may have no Headwater.
cloudpickle.register_pickle_by_value(executors)  # type: ignore[no-untyped-call]

MESSAGE = (
    "named_struct('file', CAST(NULL AS string), 'topic', topic, 'partition', partition, 'offset', offset, "
    "'timestamp', timestamp, 'timestamp_type', timestampType, 'headers', headers, 'key', key, 'value', value)"
)
PLACE = "concat_ws(' ', topic, 'partition', partition, 'offset', offset)"
_SIZE = "(coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0))"
_MADE_TYPE = "struct<text: string, reason: string, detail: string>"


def decoded(raw: DataFrame, options: Decoded, context: Context, max_row_bytes: int | None) -> ValidatedRows:
    """The eight columns of Kafka as the user's columns, with the validity of each row."""
    if options.tombstones == "drop":
        raw = raw.where("value IS NOT NULL")
    read = {"value": options, **({"key": options.key} if options.key else {})}
    functions = jar_functions(raw.sparkSession)
    parts = [_Part(name, decoding, functions) for name, decoding in read.items()]
    for part in parts:
        raw = part.made(raw, max_row_bytes, context)
    steps: list[Step] = [
        {name: sql for step in level for name, sql in step.items()}
        for level in zip_longest(*(part.steps(max_row_bytes) for part in parts), fillvalue={})
    ]
    for step in steps:
        raw = raw.withColumns({name: expr(sql) for name, sql in step.items()})
    validity = _validity(parts, options, max_row_bytes)
    lazily: Callable[[str], str] = str
    # What Python decodes cannot be decoded once more inside an expression.
    if functions and not any(part.decoding.in_python for part in parts):
        lazily = partial(_lazily, steps, functions)
    return ValidatedRows(
        raw,
        tuple(_columns(options, parts)),
        validity.bad,
        validity.reason,
        validity.detail,
        MESSAGE,
        PLACE,
        lazily,
    )


@dataclass(frozen=True)
class _Part:
    """The decoding of the value or the key of messages."""

    bytes: str
    decoding: Decoding
    functions: JarFunctions | None

    @property
    def read(self) -> str:
        """The column with the parsed value."""
        return f"__hw_{self.bytes}"

    @property
    def _made(self) -> str:
        return f"__hw_{self.bytes}_made"

    @cached_property
    def reading(self) -> Reading:
        decoding, columns = self.decoding, self.decoding.read_columns
        if columns is None:
            return Text() if decoding.written_as == "text" else Raw()
        settings = {
            "sep": decoding.delimiter,
            "nullValue": decoding.null_value,
            "timestampFormat": decoding.timestamp_format,
            "dateFormat": decoding.date_format,
        }
        if decoding.written_as == "csv":
            # As in files: a quote inside quotes is doubled (RFC 4180).
            return Csv(columns, option_texts({"escape": '"', **settings}))
        return Json(columns, option_texts(settings), self.functions)

    def made(self, raw: DataFrame, max_row_bytes: int | None, context: Context) -> DataFrame:
        """Adds a column if Python decodes the bytes: a JSON text, or the reason why it is missing."""
        if not self.decoding.in_python:
            return raw
        # The directory in which all queries find the known schema IDs, if the workers can access it.
        is_local = str(raw.sparkSession.sparkContext.master).startswith("local")
        folder = context.directory.registry / self.bytes if is_local and not context.batch else None
        function = _function(self.decoding, self.bytes, context, folder)
        return raw.withColumn(self._made, function(expr(_unless_large(self.bytes, max_row_bytes))))

    @property
    def data(self) -> str:
        """The input of the format: bytes, or their text."""
        if self.decoding.in_python:
            return f"{self._made}.text"
        return self.bytes if self.decoding.written_as == "raw" else f"CAST({self.bytes} AS string)"

    def steps(self, max_row_bytes: int | None) -> list[Step]:
        """The columns to add, up to the parsed one; a message that is too large is not parsed."""
        first, *others = self.reading.steps(self.read, self.data)
        return [{name: _unless_large(sql, max_row_bytes) for name, sql in first.items()}, *others]

    def columns(self) -> Iterator[str]:
        """The columns of a value."""
        columns = self.decoding.read_columns
        if columns is None:
            yield _as(self.read, self.decoding.column or self.bytes)
        for column in columns.columns if columns else ():
            yield _as(f"{self.read}.{backticked(column.name)}", column.name)

    def in_one(self, name: str) -> str:
        """All fields of a key as one column."""
        columns = self.decoding.read_columns
        if columns is None:
            return _as(self.read, name)
        fields = (f"{text(each.name)}, {self.read}.{backticked(each.name)}" for each in columns.columns)
        return _as(f"IF({self.bytes} IS NULL, NULL, named_struct({', '.join(fields)}))", name)

    def validity(self, absent: Validity) -> Validity:
        """The validity of these bytes, or `absent` if there are none."""
        found = self.reading.validity(self.read, self.data)
        if self.decoding.in_python:
            told = Validity(f"{self._made}.reason", f"{self._made}.detail", "true")
            found = found.unless(f"{self._made}.reason IS NOT NULL", told)
        validity = found.unless(f"{self.bytes} IS NULL", absent)
        if absent.bad == "true" and isinstance(self.reading, Json):
            # Nothing is parsed of no bytes, and that is bad already.
            validity = replace(validity, bad=found.bad)
        return validity


def _as(sql: str, name: str) -> str:
    return f"{sql} AS {backticked(name)}"


def _columns(options: Decoded, parts: Sequence[_Part]) -> Iterator[str]:
    """The user's columns: the key, the value, the metadata."""
    if options.whole_messages:
        yield from MESSAGE_COLUMNS
        return
    value, *keys = parts
    for part in keys:
        yield part.in_one(options.key.name if options.key else "key")
    yield from value.columns()
    for name, new in (options.metadata_columns or {}).items():
        yield _as(name, new)


def _validity(parts: Sequence[_Part], options: Decoded, max_row_bytes: int | None) -> Validity:
    """The validity of the value, then of the key; a message that is too large is not parsed."""
    absent = Validity()
    if not options.is_one_column and options.tombstones == "bad":
        absent = Validity.of(Reason.MISSING_VALUE, "the message has no value")
    validity = parts[0].validity(absent)
    for part in parts[1:]:
        columns = part.decoding.read_columns
        required = columns is not None and not all(each.nullable for each in columns.columns)
        lacks = Validity.of(Reason.MISSING_VALUE, "the message has no key") if required else Validity()
        of_key = part.validity(lacks)
        of_key = replace(of_key, detail=f"concat('key: ', {of_key.detail})")
        validity = of_key.unless(validity.bad, replace(validity, bad="true"))
    if max_row_bytes is not None:
        detail = f"concat({_SIZE}, ' bytes, limit {max_row_bytes}')"
        too_large = Validity.because(Reason.TOO_LARGE, detail)
        validity = validity.unless(f"{_SIZE} > {max_row_bytes}", too_large)
    return validity


def _lazily(steps: Sequence[Step], functions: JarFunctions, sql: str) -> str:
    """A call of a function that parses a message once more, and then evaluates an expression."""
    for step in reversed(steps):
        for name, parsed in step.items():
            sql = named(name, parsed, sql)
    columns = {name: MESSAGE_COLUMNS[name] for name in ("key", "value", "topic", "partition", "offset")}
    return f"{functions.lazy(sql, columns)}(struct({', '.join(columns)}))"


def _unless_large(data: str, max_row_bytes: int | None) -> str:
    return data if max_row_bytes is None else f"IF({_SIZE} > {max_row_bytes}, NULL, {data})"


def _function(
    decoding: Decoding, bytes_: str, context: Context, folder: Path | None
) -> Callable[[Column], Column]:
    """The function that decodes the bytes on the executors."""
    keys = ("key",) if bytes_ == "key" else ()
    if decoding.written_as == "protobuf":
        described = file_bytes(decoding.descriptor or "", "descriptor file")
        read = executors.protobuf(described, decoding.message or "")
    elif importlib.util.find_spec("fastavro") is None:
        raise PipelineError(AVRO_PACKAGE_MISSING.at(context.at(*keys, "format"), name=context.name))
    elif decoding.registry is None:
        read = executors.avro(file_text(decoding.schema_file or ""))
    else:
        wanted = file_text(decoding.schema_file) if decoding.schema_file else None
        registry = _registry(decoding.registry, context.at(*keys, "registry"), context.name)
        decisions = executors.SchemaDecisions(str(folder) if folder else None)
        read = executors.avro_by_number(registry, wanted, decisions)
    made: Callable[[Column], Column] = udf(read, _MADE_TYPE, useArrow=True)
    return made


def _registry(registry: Registry, place: Place | None, name: str) -> executors.Registry:
    """The registry, after a check that it is available."""
    if registry.directory:
        if not Path(registry.directory).is_dir():
            raise PipelineError(REGISTRY_DIR_NOT_FOUND.at(place, name=name, place=registry.directory))
        return executors.RegistryFolder(registry.directory)
    password = revealed(registry.password) if registry.password else None
    server = executors.RegistryServer(registry.url or "", registry.user, password)
    if server.login:
        hidden(server.login)
    try:
        server.ask()
    except executors.RegistryFailed as error:
        problem = REGISTRY_UNREACHABLE.at(place, name=name, place=server.url, reason=str(error))
        raise PipelineError(problem) from error
    return server
