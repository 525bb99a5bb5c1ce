"""Decoding of each format on Spark: an expression that parses, and the validity of its result.

The expressions are SQL strings: each call of a PySpark function is a round trip to the JVM, and the
validity of many columns has many parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.connectors.contract import Reason
from headwater.spark.functions import JarFunctions
from headwater.spec import Schema
from headwater.spec.schema import Column as SchemaColumn
from headwater.spec.schema import backticked
from headwater.values import count_of

_END, _BAD = "__hw_end", "__hw_bad"
_WHITE = " \t\r\n"
"""JSON white space."""
_SHOWN = 100
"""The maximum number of characters of a value in a message."""
_NOT_TEXT = "'not valid UTF-8'"
_NO_OBJECT = "'not a single JSON object'"
_DECIMAL = re.compile(r"\bdecimal\(\d+,\d+\)")
_LOOSE_COMMA = r',(?:[^"\s{\[]|"\s*[,\]}])'
"""A comma in JSON that does not separate two fields; a fast search, because it starts with one character."""
_COMMA_IN_TEXT = r'[:\[,]\s*"[^", g-tv-zG-TV-Z]*,'
"""A comma in a string that might be a number: no letters precede it except those of `1e5` and `\\u0031`."""
_ESCAPED = r"\u002"
"""How an escaped comma starts."""
_WHICH_UNKNOWN = "'a value does not match its column type'"


def text(value: str) -> str:
    """A SQL string literal with this value."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@dataclass(frozen=True)
class Validity:
    """Whether and why a row is bad, with details, as SQL."""

    reason: str = "CAST(NULL AS string)"
    """Null for a good row."""
    detail: str = "CAST(NULL AS string)"
    bad: str = "false"
    """True if there is a reason, else false; it costs far less than the reason."""

    @classmethod
    def of(cls, reason: Reason, detail: str) -> Validity:
        return cls.because(reason, text(detail))

    @classmethod
    def because(cls, reason: Reason, detail: str) -> Validity:
        """A bad row; the detail is SQL."""
        return cls(text(reason.value), detail, "true")

    def unless(self, condition: str, other: Validity) -> Validity:
        """A different validity if a condition is true, which must not be null."""
        return Validity(
            f"CASE WHEN {condition} THEN {other.reason} ELSE {self.reason} END",
            f"CASE WHEN {condition} THEN {other.detail} ELSE {self.detail} END",
            _either(condition, other.bad, self.bad),
        )


def _either(condition: str, then: str, otherwise: str) -> str:
    """A boolean that depends on a condition, as short as possible."""
    if then == otherwise:
        return then
    match then, otherwise:
        case "true", "false":
            return condition
        case "true", _:
            return f"({condition} OR {otherwise})"
        case "false", _:
            return f"(NOT ({condition}) AND {otherwise})"
        case _, "true":
            return f"(NOT ({condition}) OR {then})"
        case _, "false":
            return f"({condition} AND {then})"
    return f"IF({condition}, {then}, {otherwise})"


Step = Mapping[str, str]
"""Columns to add, each with its SQL."""


class Reading(Protocol):
    """How to parse and validate a format; all data and results are SQL."""

    def steps(self, read: str, data: str) -> list[Step]:
        """Parses the bytes, or their text, into the column `read`; null becomes null or a struct of nulls.

        The first step adds one column, and no later step uses the data.
        """

    def validity(self, read: str, data: str) -> Validity:
        """The validity of bytes that are not null."""


def _missing(schema: Schema, row: str) -> Validity:
    """The required column without a value."""
    validity = Validity()
    for column in reversed(schema.columns):
        if not column.nullable:
            lacks = Validity.of(Reason.MISSING_VALUE, f"{column.name}: no value")
            validity = validity.unless(f"{row}.{backticked(column.name)} IS NULL", lacks)
    return validity


def _misfit(name: str, shown: str, type_: str) -> str:
    article = "an" if type_[0] in "aeiou" else "a"
    return f"concat({text(f'{name}: ')}, left({shown}, {_SHOWN}), {text(f' is not {article} {type_}')})"


def _options(settings: Mapping[str, str]) -> str:
    # With options, Spark parses all fields.
    said = {**settings, "columnNameOfCorruptRecord": _BAD}
    return f"map({', '.join(text(each) for pair in said.items() for each in pair)})"


def _field(column: SchemaColumn, type_: str | None = None) -> str:
    return f"{backticked(column.name)} {type_ or column.type}, "


def _has_decimal(column: SchemaColumn) -> bool:
    return _DECIMAL.search(column.type) is not None


def _without_decimals(column: SchemaColumn) -> str:
    """The type with strings instead of decimals."""
    return _DECIMAL.sub("string", column.type)


def _checked(plain: str, as_texts: str, columns: Sequence[SchemaColumn], data: str, own: str = "") -> str:
    """The parsed row, with null for decimals that contain a comma: Spark ignores the comma and reads 1,5 as 15.

    They are also read as strings and cast, and a cast does not accept commas. If the results differ, the
    column is null and the row bad.
    """
    values, others = "", []
    for column in columns:
        name = backticked(column.name)
        value = f"r.{name}"
        if _has_decimal(column):
            # `not null` applies to what is parsed, not to the cast.
            cast = f"try_cast(c.{name} AS {column.type.replace(' not null', '')})"
            others.append(f"to_json(named_struct('v', {cast})) <> to_json(named_struct('v', {value}))")
            value = f"IF({others[-1]}, NULL, {value})"
        values += f"{text(column.name)}, {value}, "
    bad = f"IF({' OR '.join(others)}, coalesce(r.{_BAD}, {data}), r.{_BAD})"
    row = f"IF(r IS NULL, NULL, named_struct({values}{own}'{_BAD}', {bad}))"
    return named("r", plain, named("c", as_texts, row))


@dataclass(frozen=True)
class Json:
    """A JSON object.

    Spark's parser stops after the first value and ignores the rest, but a message with more than one object is
    malformed. A function in Headwater's jar finds the end of most objects. Otherwise, a text whose only `}` is
    its last character has nothing after its object. In other texts, an extra field is inserted before the last
    brace: it belongs to the object only if that brace closes it. Its value is a hash of the text, which the
    text itself cannot contain.

    Without the function, the text is prepared in columns of their own: Spark compiles these, but it interprets an
    expression that is an argument of `from_json`, for ten times the cost.
    """

    schema: Schema
    settings: Mapping[str, str] = field(default_factory=dict)
    functions: JarFunctions | None = None
    """None without the jar."""

    def steps(self, read: str, data: str) -> list[Step]:
        text, plain, end, ended, parsed = (
            f"{read}_{name}" for name in ("text", "plain", "end", "ended", "parsed")
        )
        if self.functions:
            # Few texts need the second parse.
            value = "CAST(value AS string)"
            ends = f"{self._plainly_parsed(_with_end(value))}.{_END} <=> {_hash(value)}"
            ends_with_it = self.functions.lazy(f"is_valid_utf8({value}) AND {ends}", {"value": "binary"})
            bytes_ = f"CAST({data} AS binary)"
            is_whole = f"{self.functions.is_one_object()}({bytes_}) OR {ends_with_it}(struct({bytes_}))"
            return [
                {text: f"IF({is_whole}, {data}, NULL)"},
                {read: self._parsed(text, self.schema.columns)},
            ]
        # Trimming is slow, and few texts need it.
        trimmed = f"IF(endswith({data}, '}}'), {data}, {_trimmed(data)})"
        is_plain = f"endswith({text}, '}}') AND NOT contains({_inside(text)}, '}}')"
        marked = f"IF(endswith({text}, '}}'), {_marked(text, end)}, NULL)"
        return [
            {text: f"IF(is_valid_utf8({data}), {trimmed}, NULL)"},
            {plain: is_plain},
            {end: f"IF({plain}, NULL, {_hash(text)})"},
            {ended: f"IF({plain}, {text}, {marked})"},
            {parsed: self._parsed(ended, self.schema.columns)},
            {read: f"IF({end} IS NULL OR {parsed}.{_END} <=> {end}, {parsed}, NULL)"},
        ]

    def validity(self, read: str, data: str) -> Validity:
        # Invalid JSON yields nothing; an object with a wrong value yields all other values.
        malformed = Validity.because(
            Reason.MALFORMED, f"IF(is_valid_utf8({data}), {_NO_OBJECT}, {_NOT_TEXT})"
        )
        ends = f"{self._plainly_parsed('t')}.{_END} <=> {_hash(data)}"
        which = f"IF({ends}, {text(Reason.TYPE_MISMATCH)}, {text(Reason.MALFORMED)})"
        wrong = Validity(
            named("t", _with_end(data), which),
            named("t", _with_end(data), f"IF({ends}, {self._which('t')}, {_NO_OBJECT})"),
            "true",
        )
        validity = _missing(self.schema, read).unless(f"{read}.{_BAD} IS NOT NULL", wrong)
        return validity.unless(f"{read} IS NULL", malformed)

    def _which(self, ended: str) -> str:
        """The first column that does not match; each is parsed alone, but only for bad rows."""
        found = []
        for column in self.schema.columns:
            any_type = f"{self._plainly_parsed(ended, _field(column, 'variant'))}.{backticked(column.name)}"
            shown = _misfit(column.name, f"coalesce(to_json({any_type}), 'its value')", column.type)
            alone = self._parsed(ended, (column,))
            found.append(f"CASE WHEN {alone}.{_BAD} IS NOT NULL THEN {shown} END")
        return f"coalesce({', '.join(found)}, {_WHICH_UNKNOWN})"

    def _parsed(self, ended: str, columns: Sequence[SchemaColumn]) -> str:
        """The parsed text, which has the extra field or not."""
        plain = self._plainly_parsed(ended, *map(_field, columns))
        if not any(map(_has_decimal, columns)):
            return plain
        as_texts = self._plainly_parsed(ended, *map(_field, columns, map(_without_decimals, columns)))
        checked = _checked(plain, as_texts, columns, ended, f"'{_END}', r.{_END}, ")
        return f"IF({_may_have_comma(ended)}, {checked}, {plain})"

    def _plainly_parsed(self, data: str, *fields: str) -> str:
        schema = text(f"{''.join(fields)}{_END} string, {_BAD} string")
        return f"from_json({data}, {schema}, {_options(self.settings)})"


def _may_have_comma(data: str) -> str:
    """Whether a number in a string may contain a comma; it is true for few rows."""
    loose, inside = (f"{data} RLIKE {text(each)}" for each in (_LOOSE_COMMA, _COMMA_IN_TEXT))
    return f"({loose} AND {inside} OR contains({data}, {text(_ESCAPED)}))"


def _hash(data: str) -> str:
    return f"CAST(xxhash64({data}) AS string)"


def named(name: str, value: str, result: str) -> str:
    """A result in which a name stands for a value, so that it is computed only once."""
    return f"get(transform(array({value}), {name} -> {result}), 0)"


def _with_end(data: str) -> str:
    """The text of an object with an extra field at its end; null if it does not end like an object."""
    marked = _marked("e", _hash(data))
    return named("e", _trimmed(data), f"CASE WHEN endswith(e, '}}') THEN {marked} END")


def _inside(ended: str) -> str:
    """All but the last character; as bytes, because counting characters is slow."""
    return f"CAST(substring(CAST({ended} AS binary), 1, octet_length({ended}) - 1) AS string)"


def _marked(ended: str, hash_: str) -> str:
    inside = _inside(ended)
    before = f"substring(CAST({ended} AS binary), -2, 1)"
    is_empty = f"IF({before} > X'20', {before} = X'7B', endswith({_trimmed(inside)}, '{{'))"
    mark, end = text(f'"{_END}":"'), text('"}')
    return f"concat({inside}, IF({is_empty}, '', ','), {mark}, {hash_}, {end})"


def _trimmed(data: str) -> str:
    return f"trim(TRAILING {text(_WHITE)} FROM {data})"


@dataclass(frozen=True)
class Csv:
    """One line of comma-separated values, in the order of the columns."""

    schema: Schema
    settings: Mapping[str, str] = field(default_factory=dict)

    def steps(self, read: str, data: str) -> list[Step]:
        return [{read: self._read(data)}]

    def _read(self, data: str) -> str:
        line, columns = f"IF(is_valid_utf8({data}), {data}, NULL)", self.schema.columns
        plain = self._parsed(line)
        if not any(map(_has_decimal, columns)):
            return plain
        # A value that contains the delimiter is quoted.
        sign = '"' if self.settings.get("sep", ",") == "," else ","
        checked = _checked(plain, self._parsed(line, map(_without_decimals, columns)), columns, data)
        return f"IF(contains({data}, '{sign}'), {checked}, {plain})"

    def validity(self, read: str, data: str) -> Validity:
        texts = self._parsed(data, ["string"] * len(self.schema.columns))
        is_line = f"is_valid_utf8({data}) AND {texts} IS NOT NULL AND {texts}.{_BAD} IS NULL"
        no_line = text(f"not a single line with {count_of(len(self.schema.columns), 'value')}")
        bad = Validity.because(Reason.MALFORMED, f"IF(is_valid_utf8({data}), {no_line}, {_NOT_TEXT})")
        bad = bad.unless(is_line, Validity.because(Reason.TYPE_MISMATCH, self._which(read, texts)))
        good = f"{read} IS NOT NULL AND {read}.{_BAD} IS NULL"
        return bad.unless(good, _missing(self.schema, read))

    def _which(self, read: str, texts: str) -> str:
        found = []
        for column in self.schema.columns:
            name = backticked(column.name)
            shown = _misfit(column.name, f"{texts}.{name}", column.type)
            found.append(f"CASE WHEN {texts}.{name} IS NOT NULL AND {read}.{name} IS NULL THEN {shown} END")
        return f"coalesce({', '.join(found)}, {_WHICH_UNKNOWN})"

    def _parsed(self, data: str, types: Iterable[str] | None = None) -> str:
        declared = (each.type for each in self.schema.columns)
        columns = "".join(map(_field, self.schema.columns, types or declared))
        # A message may end with a line break. Spark reads an empty one as a row of nulls.
        trimmed = f"trim(TRAILING '\\r\\n' FROM {data})"
        line = f"IF({trimmed} = '', NULL, {trimmed})"
        return f"from_csv({line}, {text(f'{columns}{_BAD} string')}, {_options(self.settings)})"


@dataclass(frozen=True)
class Text:
    """The bytes as a string."""

    def steps(self, read: str, data: str) -> list[Step]:
        return [{read: f"IF(is_valid_utf8({data}), {data}, NULL)"}]

    def validity(self, read: str, data: str) -> Validity:
        return Validity().unless(f"{read} IS NULL", Validity.because(Reason.MALFORMED, _NOT_TEXT))


@dataclass(frozen=True)
class Raw:
    """The bytes unchanged."""

    def steps(self, read: str, data: str) -> list[Step]:
        return [{read: data}]

    def validity(self, read: str, data: str) -> Validity:
        return Validity()


def more_follows(text: Column, options: Mapping[str, str]) -> Column:
    """Whether a text continues after its first value, which Spark would ignore; also for other values.

    The text is wrapped in an array with a second value. That value contains a hash of the text, because the
    text might contain brackets.
    """
    end = f.xxhash64(text).cast("string")
    whole = f.concat(f.lit("["), text, f.lit(f',{{"{_END}":"'), end, f.lit('"}]'))
    found = f.from_json(whole, f"array<struct<{_END}: string>>", dict(options))
    return ~((f.size(found) == 2) & f.get(found, f.lit(1))[_END].eqNullSafe(end))
