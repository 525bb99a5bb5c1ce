"""Schemas as users write them (a mapping, a DDL string, a file) in one canonical form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from headwater.values import nearest

T = TypeVar("T")

# Parses Spark DDL into canonical types without Spark, with helpful errors.

SIMPLE = {
    "boolean": "boolean", "tinyint": "tinyint", "byte": "tinyint", "smallint": "smallint",
    "short": "smallint", "int": "int", "integer": "int", "bigint": "bigint", "long": "bigint",
    "float": "float", "real": "float", "double": "double", "string": "string", "binary": "binary",
    "date": "date", "timestamp": "timestamp", "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz", "variant": "variant",
}  # fmt: skip
WITH_LENGTH = ("char", "varchar")
DECIMALS = ("decimal", "dec", "numeric")
NESTED = ("array", "map", "struct")
INTERVALS = (("year", "month"), ("day", "hour", "minute", "second"))
"""Units of one kind of interval, the longest first; `interval day to second` spans some of them."""
KNOWN = (*SIMPLE, *WITH_LENGTH, "decimal", "interval", *NESTED)

_QUOTED_NAME = r"`(?:[^`]|``)+`"
_TEXT = r"'(?:[^'\\]|\\.|'')*'" + r'|"(?:[^"\\]|\\.|"")*"'
_TOKEN = re.compile(rf"\s*(?:{_QUOTED_NAME}|{_TEXT}|\w[\w$]*|[<>(),:])", re.DOTALL)
# Spark requires backticks around other letters.
_WORD = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def quoted(name: str) -> str:
    """The name as a SQL identifier: in backticks unless it is a plain word."""
    return name if _WORD.match(name) else backticked(name)


def backticked(name: str) -> str:
    """The name in backticks, even if it is a plain word, which could be a SQL keyword."""
    return "`" + name.replace("`", "``") + "`"


def parse_columns(text: str) -> list[tuple[str, str, bool]]:
    """`a int, b struct<c: string> not null` as (name, canonical type, nullable); raises ValueError."""
    reader = _Reader(text)
    columns = reader.listed(reader.column)
    reader.end()
    return columns


def canonical_type(text: str) -> str:
    """The canonical spelling of a type."""
    reader = _Reader(text)
    type_ = reader.type()
    reader.end()
    return type_


class _Reader:
    """Recursive descent over the tokens of one DDL text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._split(text))
        self.at = 0

    @staticmethod
    def _split(text: str) -> list[str]:
        tokens, at = [], 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"`{text.strip()}` is not a type: unexpected `{text[at:].strip()[0]}`")
            tokens.append(match.group().strip())
            at = match.end()
        return tokens

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        """Skip the words if they are next."""
        if [token.lower() for token in self.tokens[self.at : self.at + len(words)]] != list(words):
            return False
        self.at += len(words)
        return True

    def word(self, wanted: str) -> str:
        token = self.next
        if not token or token[0] in "<>(),:'\"":
            raise ValueError(
                f"`{self.text.strip()}` is missing {wanted}{f' before `{token}`' if token else ''}"
            )
        self.at += 1
        return token

    def want(self, symbol: str) -> None:
        if not self.take(symbol):
            raise ValueError(f"`{self.text.strip()}` is missing a `{symbol}`")

    def listed(self, read: Callable[[], T]) -> list[T]:
        """One or more items, separated by commas."""
        found = [read()]
        while self.take(","):
            found.append(read())
        return found

    def end(self) -> None:
        if self.next:
            raise ValueError(f"`{self.text.strip()}` has an unexpected `{self.next}`")

    def column(self, *, of_struct: bool = False) -> tuple[str, str, bool]:
        name = self.word("a column name")
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        if not self.take(":") and of_struct and not self.next:
            raise ValueError(f"`{self.text.strip()}` is missing the type of field `{name}`")
        type_ = self.type()
        nullable = not self.take("not", "null")
        # A comment does not affect the rows.
        if self.take("comment"):
            if self.next[:1] not in ("'", '"'):
                raise ValueError(f"`{self.text.strip()}` is missing a quoted string after COMMENT")
            self.at += 1
        return name, type_, nullable

    def type(self) -> str:
        word = self.word("a type").lower()
        if word == "string":
            return self._string()
        if word == "interval":
            return self._interval()
        if word in SIMPLE:
            return SIMPLE[word]
        if word in DECIMALS:
            return f"decimal({','.join(self._numbers((10, 0)))})"
        if word in WITH_LENGTH:
            return f"{word}({self._numbers(())[0]})"
        if word in NESTED:
            return self._nested(word)
        hint = nearest(word, KNOWN)
        meant = f"; did you mean `{hint}`?" if hint else f"; use one of {', '.join(sorted(KNOWN))}"
        raise ValueError(f"`{word}` is not a Spark type{meant}")

    def _string(self) -> str:
        if not self.take("collate"):
            return "string"
        name = self.word("the name of a collation")
        # Spark spells its own collations in capitals; those of languages (`en_USA_CI`) stay unchanged.
        name = name.upper() if name.lower().startswith(("utf8", "unicode")) else name
        return "string" if name == "UTF8_BINARY" else f"string collate {name}"

    def _interval(self) -> str:
        units = next((units for units in INTERVALS if self.next.lower() in units), None)
        if units is None:
            return "interval"
        first = self.word("a unit").lower()
        if not self.take("to"):
            return f"interval {first}"
        last = self.word("a unit").lower()
        if last not in units[units.index(first) + 1 :]:
            raise ValueError(
                f"`{self.text.strip()}` is not a valid interval: cannot go from {first} to {last}"
            )
        return f"interval {first} to {last}"

    def _numbers(self, default: tuple[int, ...]) -> list[str]:
        if not self.take("("):
            if default:
                return [str(number) for number in default]
            raise ValueError(f"`{self.text.strip()}` is missing a length; write for example `varchar(10)`")
        numbers = self.listed(self._number)
        self.want(")")
        if default and len(numbers) == 1:
            numbers.append("0")
        if len(numbers) != (len(default) or 1):
            raise ValueError(f"`{self.text.strip()}` has too many numbers in its parentheses")
        return numbers

    def _number(self) -> str:
        word = self.word("a number")
        if not word.isdigit():
            raise ValueError(f"`{self.text.strip()}`: expected a number, got `{word}`")
        return str(int(word))

    def _nested(self, word: str) -> str:
        self.want("<")
        if word == "struct":
            inner = ",".join(self.listed(self._field))
        elif word == "array":
            inner = self.type()
        else:
            key = self.type()
            self.want(",")
            inner = f"{key},{self.type()}"
        self.want(">")
        return f"{word}<{inner}>"

    def _field(self) -> str:
        name, type_, nullable = self.column(of_struct=True)
        return f"{quoted(name)}:{type_}{'' if nullable else ' not null'}"


@dataclass(frozen=True)
class Column:
    """A column: its name, its canonical Spark type, and whether it is nullable."""

    name: str
    type: str
    nullable: bool = True

    @property
    def ddl(self) -> str:
        return f"{quoted(self.name)} {self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True)
class Schema:
    """Columns in order; two spellings of one schema are equal."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, declared: object) -> Schema:
        """A schema from a mapping of names to types or a DDL string; raises ValueError otherwise."""
        if isinstance(declared, Schema):
            return declared
        if isinstance(declared, str):
            return cls._checked(Column(*column) for column in parse_columns(declared))
        if isinstance(declared, Mapping):
            return cls._checked(_column(name, written) for name, written in declared.items())
        raise ValueError("expected a mapping of columns to types, a DDL string or the name of a schema file")

    @classmethod
    def of_spark_json(cls, text: str) -> Schema:
        """A schema from the JSON representation of a Spark StructType."""
        try:
            fields = json.loads(text)["fields"]
            return cls._checked(
                Column(field["name"], _json_type(field["type"]), field.get("nullable", True))
                for field in fields
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError("the text is not the JSON representation of a Spark schema") from error

    @classmethod
    def _checked(cls, columns: Any) -> Schema:
        columns = tuple(columns)
        if not columns:
            raise ValueError("the schema has no columns; write at least one")
        names = [column.name.lower() for column in columns]
        for index, column in enumerate(columns):
            if names[index] in names[:index]:
                raise ValueError(f"the schema has two columns named `{column.name}`")
        return cls(columns)

    @property
    def ddl(self) -> str:
        """The schema as a DDL string that Spark reads."""
        return ", ".join(column.ddl for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _column(name: str, written: object) -> Column:
    if not isinstance(written, str):
        return Column(name, _nested(name, written))
    (_, type_, nullable), *more = parse_columns(f"{quoted(name)} {written}")
    if more:
        raise ValueError(f"column `{name}`: expected one type, got `{written}`")
    return Column(name, type_, nullable)


def _nested(name: str, written: object) -> str:
    """The type of a mapping (a struct) or of a list of one item (an array)."""
    if isinstance(written, str):
        return canonical_type(written)
    if isinstance(written, Mapping) and written:
        fields = (f"{quoted(key)}:{_nested(key, inner)}" for key, inner in written.items())
        return f"struct<{','.join(fields)}>"
    if isinstance(written, list) and len(written) == 1:
        return f"array<{_nested(name, written[0])}>"
    raise ValueError(
        f"column `{name}` has no type; write a type such as `string`, a mapping (struct) or a list of one type "
        "(array)"
    )


def _json_type(written: Any) -> str:
    if isinstance(written, str):
        return canonical_type(written)
    if written["type"] == "array":
        return f"array<{_json_type(written['elementType'])}>"
    if written["type"] == "map":
        return f"map<{_json_type(written['keyType'])},{_json_type(written['valueType'])}>"
    fields = (f"{quoted(field['name'])}:{_json_type(field['type'])}" for field in written["fields"])
    return f"struct<{','.join(fields)}>"
