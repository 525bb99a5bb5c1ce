"""How a row becomes a message: a SQL expression for each part, or the problems with the columns.

The check and the engine use the same value: whatever passes here is what the sink selects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headwater.connectors.kafka import errors
from headwater.connectors.kafka.sink_options import ENCODINGS, KafkaSink, as_avro_name, is_avro_name, misfits
from headwater.connectors.options import TIMES
from headwater.errors import Entry, Problem
from headwater.spec import SinkSpec
from headwater.spec.schema import backticked
from headwater.values import Continuous, RealTime, did_you_mean

REJECTIONS = (
    errors.KAFKA_AVRO_FIELD_MISMATCH,
    errors.KAFKA_AVRO_NAME_INVALID,
    errors.KAFKA_COLUMN_TYPE_INVALID,
    errors.KAFKA_DEDUP_TRIGGER_UNSUPPORTED,
    errors.KAFKA_TOPIC_MISSING,
    errors.KAFKA_VALUE_MISSING,
    errors.KAFKA_COLUMN_NOT_FOUND,
)
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_TEXT = ("string", "char(", "varchar(")
_NESTED = ("struct<", "array<", "map<", "variant")


@dataclass
class Message:
    """The parts of a message by their Kafka names, and all problems."""

    name: str
    options: KafkaSink
    columns: Mapping[str, str]
    parts: dict[str, str] = field(default_factory=dict)
    wrong: list[tuple[str, Problem]] = field(default_factory=list)
    """The key of the sink for each problem, not yet located in the user's file."""

    @classmethod
    def of(cls, name: str, options: KafkaSink, columns: Mapping[str, str]) -> Message:
        """The message of a sink whose rows have these columns, by name and type."""
        made = cls(name, options, columns)
        if options.topic is not None:
            made.parts["topic"] = literal(options.topic)
        elif options.topic_column or made._has("topic"):
            made._plain_part("topic", options.topic_column, "string", _TEXT)
        else:
            made._refuse("topic", errors.KAFKA_TOPIC_MISSING)
        if isinstance(options.key, list):
            keys = [each for column in options.key if (each := made._found("key", column))]
            made.parts["key"] = _json(keys)
        else:
            made._plain_part("key", options.key, "string or binary", (*_TEXT, "binary"))
        made._value()
        made._headers()
        made._plain_part("partition", options.partition, "int", ("int",))
        return made

    @property
    def selected(self) -> list[str]:
        """The SQL expressions to select."""
        return [f"{sql} AS `{part}`" for part, sql in self.parts.items()]

    def _value(self) -> None:
        value = self.options.value
        if value in ENCODINGS:
            named = self.options.columns or tuple(self.columns)
            found = [each for column in named if (each := self._found("value", column, "columns"))]
            self.parts["value"] = _json(found) if value == "json" else self._avro(found)
        elif value is not None or self._has("value"):
            self._plain_part("value", value, "string or binary", (*_TEXT, "binary"))
        else:
            first = next(iter(self.columns), "name")
            cast = _cast(first, self.columns.get(first, ""), "string", "value")
            self._refuse("value", errors.KAFKA_VALUE_MISSING, column=first, cast=cast)

    def _avro(self, columns: list[str]) -> str:
        schema, registered = self.options.schema_file, self.options.schema_id
        for column in columns:
            if not is_avro_name(column):
                meant = f"`{column}` AS {as_avro_name(column)}"
                self._refuse("value", errors.KAFKA_AVRO_NAME_INVALID, column=column, meant=meant)
        rows = f"struct({', '.join(map(backticked, columns))})"
        if schema is None:
            return f"to_avro({rows})"
        for says, hint in misfits(schema, {column: self.columns[column] for column in columns}):
            self._refuse("schema_file", errors.KAFKA_AVRO_FIELD_MISMATCH, says=says, hint=hint)
        encoded = f"to_avro({rows}, {literal(schema.text)})"
        # The wire format of a registry: a zero byte, the ID in four bytes, the record.
        return encoded if registered is None else f"concat(X'00{registered:08X}', {encoded})"

    def _headers(self) -> None:
        headers = self.options.headers
        if not isinstance(headers, dict):
            self._plain_part("headers", headers, HEADERS_TYPE, (HEADERS_TYPE,))
            return
        made = [self._header(header, column) for header, column in headers.items()]
        self.parts["headers"] = f"CAST(array({', '.join(made)}) AS {HEADERS_TYPE})"

    def _header(self, header: str, column: str) -> str:
        part = f"header `{header}`"
        found = self._found(part, column, "headers") or ""
        if found:
            self._check_type(part, "headers", found, "string or binary", (*_TEXT, "binary"))
        return f"named_struct('key', {literal(header)}, 'value', CAST({backticked(found)} AS binary))"

    def _plain_part(self, part: str, named: str | None, wanted: str, types: tuple[str, ...]) -> None:
        """A part from one column: the configured one, or the column with the name of the part."""
        if named is None and (self.options.value is not None or not self._has(part)):
            return
        key = "topic_column" if part == "topic" else part
        found = self._found(part, named or part, key)
        if found is None:
            return
        self._check_type(part, key, found, wanted, types)
        is_text = self.columns[found].startswith(_TEXT)
        # A collated string is a different type for Spark's writer.
        self.parts[part] = f"CAST({backticked(found)} AS string)" if is_text else backticked(found)

    def _check_type(self, part: str, key: str, column: str, wanted: str, types: tuple[str, ...]) -> None:
        found = self.columns[column]
        if found.startswith(types) if wanted != "int" else found == "int":
            return
        params = {"part": part, "wanted": wanted, "column": column, "type": found}
        self._refuse(
            key, errors.KAFKA_COLUMN_TYPE_INVALID, cast=_cast(column, found, wanted, column), **params
        )

    def _has(self, column: str) -> bool:
        return self.options.value is None and column in {name.lower() for name in self.columns}

    def _found(self, part: str, column: str, key: str = "") -> str | None:
        """The column as the rows spell it."""
        spelt = {name.lower(): name for name in self.columns}.get(column.lower())
        if spelt is None:
            hint = did_you_mean(column, self.columns, f"Use one of its columns: {', '.join(self.columns)}.")
            self._refuse(key or part, errors.KAFKA_COLUMN_NOT_FOUND, part=part, column=column, hint=hint)
        return spelt

    def _refuse(self, key: str, entry: Entry, **params: object) -> None:
        self.wrong.append((key, entry.at(None, name=self.name, **params)))


def problems_of(sink: SinkSpec, columns: Mapping[str, str]) -> Iterator[Problem]:
    """Problems that Spark would report only when it writes the first batch."""
    options = sink.options
    assert isinstance(options, KafkaSink), "a Kafka sink has its own options"
    for key, problem in Message.of(sink.name, options, columns).wrong:
        yield replace(problem, place=sink.at(key))
    if options.dedup_headers and isinstance(sink.trigger, Continuous | RealTime):
        place, trigger = sink.at("dedup_headers"), str(sink.trigger)
        yield errors.KAFKA_DEDUP_TRIGGER_UNSUPPORTED.at(place, name=sink.name, trigger=trigger)


def literal(text: str) -> str:
    """A string in SQL, regardless of its content and of how the session parses quotes."""
    return f"CAST(X'{text.encode().hex()}' AS string)"


def _json(columns: list[str]) -> str:
    times = ", ".join(f"'{key}', {literal(value)}" for key, value in TIMES.items())
    return f"to_json(struct({', '.join(map(backticked, columns))}), map({times}))"


def _cast(column: str, type_: str, wanted: str, name: str) -> str:
    """The cast to suggest."""
    shown, alias = (each if each.isidentifier() else backticked(each) for each in (column, name))
    if wanted == HEADERS_TYPE and not type_.startswith("array<struct<"):
        return f"array(struct('name' AS key, CAST({shown} AS binary) AS value)) AS {alias}"
    if wanted in ("int", HEADERS_TYPE):
        return f"CAST({shown} AS {wanted}) AS {alias}"
    if type_.startswith(_NESTED):
        return f"to_json({shown}) AS {alias}"
    return f"CAST({shown} AS string) AS {alias}"


# The headers by which consumers recognize duplicate messages, as SQL.
#
# Three headers identify a message: the ID of the query, the ID of the batch, and the row: a hash of the whole
# message with its number among equal messages of the batch. A retried batch has the same rows and so the same
# headers; which of two equal rows has which number does not matter.

QUERY = "headwater-query"
BATCH = "headwater-batch"
ROW = "headwater-row"
MARKS = (QUERY, BATCH, ROW)

PARTS = ("topic", "key", "value", "partition", "headers")
_NULL = "CAST('-' AS binary)"


def row_hash(parts: Iterable[str]) -> str:
    """SHA-256 over the parts of a message, each prefixed with its length so that no two rows look alike.

    In order: topic, key, value, partition, headers. A part is its length in bytes, a colon and its bytes. A
    null or missing part is a hyphen. Headers are their number, a colon, then name and value of each, as parts.
    """
    there = set(parts)
    encoded = (_encoded(part) if part in there else _NULL for part in PARTS)
    return f"sha2(concat({', '.join(encoded)}), 256)"


def with_marks(*, query: str, batch: str, row: str, has_headers: bool) -> str:
    """The headers of a message with the three marks, which replace those of an earlier pipeline."""
    names = ", ".join(literal(name) for name in MARKS)
    own = f"filter(coalesce(`headers`, array()), each -> each.key NOT IN ({names}))"
    marks = ", ".join(
        f"named_struct('key', {literal(name)}, 'value', CAST({value} AS binary))"
        for name, value in zip(MARKS, (literal(query), literal(batch), row), strict=True)
    )
    added = f"CAST(array({marks}) AS {HEADERS_TYPE})"
    return f"concat({own}, {added})" if has_headers else added


def _encoded(part: str) -> str:
    if part == "headers":
        each = f"concat(sofar, {_sized('each.key')}, {_sized('each.value')})"
        all_of_them = f"aggregate(`headers`, X'', (sofar, each) -> {each})"
        return _unless_null("`headers`", f"concat({_count('size(`headers`)')}, {all_of_them})")
    # A number is encoded as a string.
    return _sized("CAST(`partition` AS string)" if part == "partition" else f"`{part}`")


def _sized(sql: str) -> str:
    length = _count(f"octet_length(CAST({sql} AS binary))")
    return _unless_null(sql, f"concat({length}, CAST({sql} AS binary))")


def _count(sql: str) -> str:
    return f"CAST(concat(CAST({sql} AS string), ':') AS binary)"


def _unless_null(sql: str, encoded: str) -> str:
    return f"CASE WHEN {sql} IS NULL THEN {_NULL} ELSE {encoded} END"
