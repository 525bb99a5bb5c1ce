"""What each format makes of bytes on Spark: one expression that reads, and the validity of what it gave.

The expressions are SQL texts: each call of PySpark's functions is a round trip to the JVM, and the
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
from headwater.spec import Schema
from headwater.spec.schema import Column as SchemaColumn
from headwater.spec.schema import backticked

_END, _BAD = "__hw_end", "__hw_bad"
_WHITE = " \t\r\n"
"""White space of JSON."""
_SHOWN = 100
"""So many letters of a value are shown."""
_NOT_TEXT = "'it is not UTF-8'"
_DECIMAL = re.compile(r"\bdecimal\(\d+,\d+\)")
_LOOSE_COMMA = r',(?:[^"\s{\[]|"\s*[,\]}])'
"""A comma of JSON that is not one between two fields; quick to look for, since it begins with one letter."""
_COMMA_IN_TEXT = r'[:\[,]\s*"[^", g-tv-zG-TV-Z]*,'
"""One in a text that might be a number: before it are no letters but those of `1e5` and `\\u0031`."""
_ESCAPED = r"\u002"
"""How one begins that is written as a number."""
_WHICH_UNKNOWN = "'a value does not fit its column'"


def text(value: str) -> str:
    """A text of SQL with this value."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@dataclass(frozen=True)
class Validity:
    """Why a row is bad, and more about it, as SQL; null for a good one."""

    reason: str = "CAST(NULL AS string)"
    detail: str = "CAST(NULL AS string)"

    @classmethod
    def of(cls, reason: Reason, detail: str) -> Validity:
        return cls(text(reason.value), text(detail))

    def unless(self, condition: str, other: Validity) -> Validity:
        """Another one where something is so."""
        return Validity(
            f"CASE WHEN {condition} THEN {other.reason} ELSE {self.reason} END",
            f"CASE WHEN {condition} THEN {other.detail} ELSE {self.detail} END",
        )


class Reading(Protocol):
    """How one format is read and validated; everything is SQL, `read` and `data` too."""

    def read(self, data: str) -> str:
        """What reads the bytes, or their text; null gives null or a struct of nulls."""

    def validity(self, read: str, data: str) -> Validity:
        """The validity of bytes that are there."""


def _missing(schema: Schema, row: str) -> Validity:
    """Which required column has no value."""
    validity = Validity()
    for column in reversed(schema.columns):
        if not column.nullable:
            lacks = Validity.of(Reason.MISSING, f"{column.name}: no value")
            validity = validity.unless(f"{row}.{backticked(column.name)} IS NULL", lacks)
    return validity


def _misfit(name: str, shown: str, type_: str) -> str:
    article = "an" if type_[0] in "aeiou" else "a"
    return f"concat({text(f'{name}: ')}, left({shown}, {_SHOWN}), {text(f' is not {article} {type_}')})"


def _options(settings: Mapping[str, str]) -> str:
    # With options, Spark leaves no field out of a parse.
    said = {**settings, "columnNameOfCorruptRecord": _BAD}
    return f"map({', '.join(text(each) for pair in said.items() for each in pair)})"


def _field(column: SchemaColumn, type_: str | None = None) -> str:
    return f"{backticked(column.name)} {type_ or column.type}, "


def _has_decimal(column: SchemaColumn) -> bool:
    return _DECIMAL.search(column.type) is not None


def _without_decimals(column: SchemaColumn) -> str:
    """The type with texts in place of decimals."""
    return _DECIMAL.sub("string", column.type)


def _checked(plain: str, as_texts: str, columns: Sequence[SchemaColumn], data: str, own: str = "") -> str:
    """What is read, but without decimals that have a comma: Spark leaves it out, and 1,5 is 15.

    They are read as texts, too, and cast, which takes no commas; where that gives something else, the column
    is null and the row bad.
    """
    values, others = "", []
    for column in columns:
        name = backticked(column.name)
        value = f"r.{name}"
        if _has_decimal(column):
            # Fields that are required are so in what is read, not in what is cast.
            cast = f"try_cast(c.{name} AS {column.type.replace(' not null', '')})"
            others.append(f"to_json(named_struct('v', {cast})) <> to_json(named_struct('v', {value}))")
            value = f"IF({others[-1]}, NULL, {value})"
        values += f"{text(column.name)}, {value}, "
    bad = f"IF({' OR '.join(others)}, coalesce(r.{_BAD}, {data}), r.{_BAD})"
    row = f"IF(r IS NULL, NULL, named_struct({values}{own}'{_BAD}', {bad}))"
    return _named("r", plain, _named("c", as_texts, row))


@dataclass(frozen=True)
class Json:
    """An object of JSON.

    Spark's parser stops behind the first value and takes what follows for nothing. A text whose only `}` is
    its last letter has nothing behind its object. In any other, one more field is put before the last brace:
    it is in the object only where that brace is the one that ends it. Its value is a hash of the text, which
    the text itself can't have in it.
    """

    schema: Schema
    settings: Mapping[str, str] = field(default_factory=dict)

    def read(self, data: str) -> str:
        columns = self.schema.columns
        whole = _named("r", self._parsed(_with_end(data), columns, data), self._ended(data, "r"))
        one_brace = f"endswith({data}, '}}') AND NOT contains({_inside(data)}, '}}')"
        return (
            f"CASE WHEN NOT is_valid_utf8({data}) THEN NULL "
            f"WHEN {one_brace} THEN {self._parsed(data, columns, data)} ELSE {whole} END"
        )

    def _ended(self, data: str, read: str) -> str:
        """The same fields, and all of the text as what is bad where the object does not end with it."""
        kept = (f"{text(each.name)}, {read}.{backticked(each.name)}, " for each in self.schema.columns)
        bad = f"IF({read}.{_END} <=> {_hash(data)}, {read}.{_BAD}, coalesce({read}.{_BAD}, {data}))"
        return f"named_struct({''.join(kept)}'{_END}', {read}.{_END}, '{_BAD}', {bad})"

    def validity(self, read: str, data: str) -> Validity:
        # Of a text that is no JSON nothing is read, of an object with a wrong value all the rest.
        no_object = f"IF(is_valid_utf8({data}), 'it is not one JSON object', {_NOT_TEXT})"
        malformed = Validity(text(Reason.MALFORMED), no_object)
        ends = f"{self._plainly_parsed('t')}.{_END} <=> {_hash(data)}"
        wrong = Validity(
            _named("t", _with_end(data), f"IF({ends}, {text(Reason.WRONG_TYPE)}, {text(Reason.MALFORMED)})"),
            _named("t", _with_end(data), f"IF({ends}, {self._which('t')}, {no_object})"),
        )
        validity = _missing(self.schema, read)
        return validity.unless(f"{read}.{_BAD} IS NOT NULL", wrong).unless(f"{read} IS NULL", malformed)

    def _which(self, ended: str) -> str:
        """The first column that does not fit; each is tried alone, which only bad rows come to."""
        found = []
        for column in self.schema.columns:
            any_type = f"{self._plainly_parsed(ended, _field(column, 'variant'))}.{backticked(column.name)}"
            shown = _misfit(column.name, f"coalesce(to_json({any_type}), 'its value')", column.type)
            alone = self._parsed(ended, (column,), ended)
            found.append(f"CASE WHEN {alone}.{_BAD} IS NOT NULL THEN {shown} END")
        return f"coalesce({', '.join(found)}, {_WHICH_UNKNOWN})"

    def _parsed(self, ended: str, columns: Sequence[SchemaColumn], data: str) -> str:
        """What is read of a text that is that of the data, or has the field at its end, too."""
        plain = self._plainly_parsed(ended, *map(_field, columns))
        if not any(map(_has_decimal, columns)):
            return plain
        as_texts = self._plainly_parsed(ended, *map(_field, columns, map(_without_decimals, columns)))
        checked = _checked(plain, as_texts, columns, ended, f"'{_END}', r.{_END}, ")
        return f"IF({_may_have_comma(data)}, {checked}, {plain})"

    def _plainly_parsed(self, data: str, *fields: str) -> str:
        schema = text(f"{''.join(fields)}{_END} string, {_BAD} string")
        return f"from_json({data}, {schema}, {_options(self.settings)})"


def _may_have_comma(data: str) -> str:
    """Whether a number that is written as text may have a comma; every row is asked, and few are so."""
    loose, inside = (f"{data} RLIKE {text(each)}" for each in (_LOOSE_COMMA, _COMMA_IN_TEXT))
    return f"({loose} AND {inside} OR contains({data}, {text(_ESCAPED)}))"


def _hash(data: str) -> str:
    return f"CAST(xxhash64({data}) AS string)"


def _named(name: str, value: str, result: str) -> str:
    """A result in which a name stands for a value: what is written twice would be worked out twice."""
    return f"get(transform(array({value}), {name} -> {result}), 0)"


def _with_end(data: str) -> str:
    """The text of an object with one more field at its end; null where it does not end like an object."""
    marked = f"CASE WHEN endswith(e, '}}') THEN {_marked('e', data)} END"
    return f"IF(is_valid_utf8({data}), {_named('e', _trimmed(data), marked)}, NULL)"


def _inside(ended: str) -> str:
    """All but the last letter; as bytes, or each letter would be counted."""
    return f"CAST(substring(CAST({ended} AS binary), 1, octet_length({ended}) - 1) AS string)"


def _marked(ended: str, data: str) -> str:
    inside = _inside(ended)
    before = f"substring(CAST({ended} AS binary), -2, 1)"
    is_empty = f"IF({before} > X'20', {before} = X'7B', endswith({_trimmed(inside)}, '{{'))"
    mark, end = text(f'"{_END}":"'), text('"}')
    return f"concat({inside}, IF({is_empty}, '', ','), {mark}, {_hash(data)}, {end})"


def _trimmed(data: str) -> str:
    return f"trim(TRAILING {text(_WHITE)} FROM {data})"


@dataclass(frozen=True)
class Csv:
    """One line of comma-separated values, in the order of the columns."""

    schema: Schema
    settings: Mapping[str, str] = field(default_factory=dict)

    def read(self, data: str) -> str:
        line, columns = f"IF(is_valid_utf8({data}), {data}, NULL)", self.schema.columns
        plain = self._parsed(line)
        if not any(map(_has_decimal, columns)):
            return plain
        # What has the delimiter in it stands in quotes.
        sign = '"' if self.settings.get("sep", ",") == "," else ","
        checked = _checked(plain, self._parsed(line, map(_without_decimals, columns)), columns, data)
        return f"IF(contains({data}, '{sign}'), {checked}, {plain})"

    def validity(self, read: str, data: str) -> Validity:
        texts = self._parsed(data, ["string"] * len(self.schema.columns))
        is_line = f"is_valid_utf8({data}) AND {texts} IS NOT NULL AND {texts}.{_BAD} IS NULL"
        no_line = text(f"it is not one line of {len(self.schema.columns)} values")
        bad = Validity(text(Reason.MALFORMED), f"IF(is_valid_utf8({data}), {no_line}, {_NOT_TEXT})")
        bad = bad.unless(is_line, Validity(text(Reason.WRONG_TYPE), self._which(read, texts)))
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
        # A message may end like a line of a file. Of an empty one Spark makes a row of nulls.
        line = f"nullif(trim(TRAILING '\\r\\n' FROM {data}), '')"
        return f"from_csv({line}, {text(f'{columns}{_BAD} string')}, {_options(self.settings)})"


@dataclass(frozen=True)
class Text:
    """The bytes as text."""

    def read(self, data: str) -> str:
        return f"IF(is_valid_utf8({data}), {data}, NULL)"

    def validity(self, read: str, data: str) -> Validity:
        return Validity().unless(f"{read} IS NULL", Validity(text(Reason.MALFORMED), _NOT_TEXT))


@dataclass(frozen=True)
class Raw:
    """The bytes as they are."""

    def read(self, data: str) -> str:
        return data

    def validity(self, read: str, data: str) -> Validity:
        return Validity()


def more_follows(text: Column, options: Mapping[str, str]) -> Column:
    """Whether a text goes on behind its first value, which Spark would pass over; also of what is no object.

    The second of two values says that the text is one. It has a hash that no text has of itself: a text might
    bring brackets of its own.
    """
    end = f.xxhash64(text).cast("string")
    whole = f.concat(f.lit("["), text, f.lit(f',{{"{_END}":"'), end, f.lit('"}]'))
    found = f.from_json(whole, f"array<struct<{_END}: string>>", dict(options))
    return ~((f.size(found) == 2) & f.get(found, f.lit(1))[_END].eqNullSafe(end))
