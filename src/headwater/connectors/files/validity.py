"""The validity of each row of a file, as columns over Spark's rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from headwater.connectors.contract import DETAIL, REASON, ROW, ROW_TYPE, Reason
from headwater.connectors.decoding.formats import more_follows
from headwater.connectors.files.folders import Folders, encoded
from headwater.connectors.options import TIMES
from headwater.spec.schema import backticked
from headwater.values import count_of

# Addresses, names and patterns of rows and files, in Python and as SQL.

TEXT, ADDRESS, CORRUPT, REJECTED = "__hw_text", "__hw_address", "__hw_corrupt", "__hw_rejected"

UNDECODED = "\ufffd"
"""The character with which Spark's readers replace bytes that are not valid text."""
NOT_TEXT = "not valid text"

# Characters above one byte, which cannot occur in a line that is read byte by byte: the line is one value.
WHOLE_LINE = {
    "header": "true",
    "encoding": "ISO-8859-1",
    "sep": "Ā",
    "quote": "ā",
    "escape": "Ă",
    "nullValue": "ă",
    "maxCharsPerColumn": "-1",
}
_ODD = [chr(each) for each in range(1, 127) if chr(each) != "/" and encoded(chr(each)) != chr(each)]


def has_text(type_: str) -> bool:
    """Whether a value of the type is or contains a string."""
    return "string" in type_ or "char(" in type_


def undecoded(column: str, type_: str) -> str:
    """SQL: whether a string of the column contains replaced bytes."""
    text = f"to_json({column})" if type_.startswith(("array<", "map<", "struct<")) else column
    return f"contains({text}, '{UNDECODED}')"


def address_of(file: Path) -> str:
    """The address of a local file, as Spark writes it."""
    return f"file://{encoded_path(file)}"


def encoded_path(path: Path | str) -> str:
    """A path as in the address of a file."""
    return "/".join(encoded(part) for part in str(path).split("/"))


def plain(address: str) -> str:
    """SQL: the path of a file from its address."""
    path = f"regexp_replace({address}, '^file:/+', '/')"
    return f"url_decode(replace({path}, '+', '%2B'))"


def address(path: str) -> str:
    """SQL: the address of a file from its path."""
    spelled = path
    # The percent sign comes first, or it would encode the result of other replacements.
    for char in sorted(_ODD, key=lambda each: each != "%"):
        written = {"'": "\\'", "\\": "\\\\"}.get(char, char)
        spelled = f"replace({spelled}, '{written}', '{encoded(char)}')"
    return f"if(startswith({path}, '/'), concat('file://', {spelled}), {spelled})"


def row_start(tag: str) -> str:
    """A pattern for the start of an XML element that is a row."""
    return rf"<{re.escape(tag)}(?=[\s/>])"


def element(tag: str) -> str:
    """A pattern for the row elements of an XML text, and for comments, which are not rows.

    An unclosed element extends to the end of the text, so it is quarantined and not lost.
    """
    start = row_start(tag)
    attributes = r"""(?:[^>"'/]|"[^"]*"|'[^']*'|/(?!>))*"""
    return rf"(?s)<!--.*?-->|{start}{attributes}/>|{start}.*?(?:</{re.escape(tag)}\s*>|\z)"


_READ = "__hw_read"
_SHOWN = 100
Misfit = tuple[Column, Reason, Column]
"""A condition for a bad row, with its reason and detail."""


def no_text() -> Column:
    return f.lit(None).cast("string")


@dataclass(frozen=True)
class Decoder:
    """Parses the text of a row in one format."""

    format: str
    inside: StructType
    """The columns stored in the files."""
    settings: Mapping[str, str]
    """The options of Spark's reader of the format."""

    def rows(self, lines: DataFrame) -> DataFrame:
        """Lines or whole files as one text per row."""
        if self.format == "xml":
            return lines.withColumn(TEXT, f.explode(self._elements()))
        return lines if self.format == "text" else lines.where(self._is_row(f.col(TEXT)))

    def replayed(self, texts: DataFrame) -> DataFrame:
        """Replayed texts, of which none may be lost: a text that is not a row is kept as a bad one."""
        if self.format != "xml":
            return texts
        found = self._elements()
        return texts.withColumn(TEXT, f.explode(f.when(f.size(found) > 0, found).otherwise(f.array(TEXT))))

    def _elements(self) -> Column:
        """The row elements of an XML text, with their exact bytes."""
        tag, text = self._given["rowtag"], f.col(TEXT)
        found = f.regexp_extract_all(text, f.lit(element(tag)), f.lit(0))
        # A pattern would change bytes that are not UTF-8; in Latin-1, each byte is one character.
        letters = f.decode(text.cast("binary"), "ISO-8859-1")
        pattern = f.lit(element(tag.encode().decode("latin-1")))
        by_bytes = f.transform(
            f.regexp_extract_all(letters, pattern, f.lit(0)),
            lambda each: f.encode(each, "ISO-8859-1").cast("string"),
        )
        found = f.when(f.is_valid_utf8(text), found).otherwise(by_bytes)
        return f.filter(found, lambda each: ~each.startswith("<!--"))

    def written(self) -> Column:
        """The text of a row from its columns, in a form that `typed` can parse."""
        values = f.struct(*(f.col(backticked(name)) for name in self.inside.names))
        times = {key: form for key, form in TIMES.items() if key.lower() not in self._given}
        if self.format == "csv":
            # Spark trims values when it writes, but not when it reads.
            kept = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
            return f.to_csv(values, {**times, **self._options, **kept})
        return f.to_json(values, {**times, **self._options})

    def typed(self, text: Column) -> Column:
        """The columns of a text, with the text itself if it does not match them; null if it is not a row."""
        if self.format == "text":
            return f.struct(text.alias(self.inside.names[0]), no_text().alias(CORRUPT))
        return self._parsed(text, self.inside)

    def is_malformed(self, text: Column) -> Column:
        """Whether a text that does not match is malformed or has different fields."""
        if self.is_whole:
            return f.get_json_object(text, "$").isNull()
        parsed = self._as_strings(text)
        return parsed.isNull() | parsed[CORRUPT].isNotNull()

    def _as_strings(self, text: Column) -> Column:
        return self._parsed(text, StructType([StructField(each.name, StringType()) for each in self.inside]))

    def goes_on(self, text: Column) -> Column:
        """Whether text follows the first value, which Spark would silently ignore."""
        return more_follows(text, self._options) if self.format == "json" else f.lit(False)

    def wrong(self, text: Column, typed: Mapping[str, Column]) -> Column:
        """The column that a well-formed text does not match, with its value; null if unknown."""
        strings, found = self._as_strings(text), []
        if self.is_whole:
            # Which of many rows it was is unknown: Spark keeps the text of all of them.
            found.append(f.when(text.rlike(r"^\s*\["), f.lit("a value does not match its column type")))
        for each in self.inside:
            value = strings[each.name]
            if self.format == "csv":
                is_wrong = value.isNotNull() & typed[each.name].isNull()
            else:
                is_wrong = self._parsed(text, StructType([each]))[CORRUPT].isNotNull()
            kind = f.lit(f"column {each.name} is {each.dataType.simpleString()}: ")
            shown = f.substring(f.coalesce(value, f.lit("")), 1, _SHOWN)
            found.append(f.when(is_wrong, f.concat(kind, shown)))
        return f.coalesce(*found)

    @property
    def is_whole(self) -> bool:
        """Whether a text may be a whole file with many rows."""
        return self.format == "json" and self._given.get("multiline", "").lower() == "true"

    def _parsed(self, text: Column, columns: StructType) -> Column:
        schema = StructType([*columns, StructField(CORRUPT, StringType())])
        if self.format == "csv":
            parsed = f.from_csv(text, schema.toDDL(), self._options)
        else:
            parse = f.from_xml if self.format == "xml" else f.from_json
            parsed = parse(text, schema, self._options)
        return f.when(self._is_row(text), parsed)

    def _is_row(self, text: Column) -> Column:
        """Whether a text may be a row; Spark's parsers return nulls for some texts that are not."""
        if self.format == "xml":
            return text.rlike(row_start(self._given["rowtag"]))
        is_row = f.trim(text) != ""
        comment = self._given.get("comment", "") if self.format == "csv" else ""
        return is_row & ~text.startswith(comment) if comment else is_row

    @property
    def _options(self) -> dict[str, str]:
        left = ("header", "enforceschema", "mode", "rowtag")
        given = {key: value for key, value in self.settings.items() if key.lower() not in left}
        return {**given, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}

    @property
    def _given(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.settings.items()}


@dataclass(frozen=True)
class Validation:
    """Adds the validity to each row below one path."""

    decoder: Decoder
    folders: Folders
    required: tuple[str, ...]
    max_row_bytes: int | None
    decodes: bool = False
    """Spark's reader of the format decodes bytes, and replaces invalid ones with U+FFFD."""
    carried: tuple[str, ...] = ()
    """Columns that are passed through."""

    def texts(self, rows: DataFrame) -> DataFrame:
        """The validity of rows with their text, their address, and the rejected file."""
        rows = self._placed(rows)
        text = f.col(TEXT)
        fits = f.lit(True) if self.max_row_bytes is None else f.octet_length(TEXT) <= self.max_row_bytes
        valid = f.is_valid_utf8(TEXT)
        looked_at = fits & valid & f.col(REJECTED).isNull()
        rows = rows.withColumn(_READ, f.when(looked_at, self.decoder.typed(text)))
        inside = [f.col(_READ)[each.name].alias(each.name) for each in self.decoder.inside]
        none = looked_at & f.col(_READ).isNull()
        corrupt = f.when(none, f.coalesce(text, f.lit(""))).otherwise(f.col(_READ)[CORRUPT])
        rows = rows.select(*inside, corrupt.alias(CORRUPT), TEXT, ADDRESS, REJECTED, *self.carried)
        large = (~fits, Reason.TOO_LARGE, f.concat(f.octet_length(TEXT), f.lit(" bytes")))
        not_text = (~valid, Reason.MALFORMED, f.lit(NOT_TEXT))
        longer = (self.decoder.goes_on(text), Reason.MALFORMED, f.lit("extra text after the JSON value"))
        return self._validated(rows, [large, not_text], [longer], f.col(TEXT).cast("binary"))

    def read(self, rows: DataFrame) -> DataFrame:
        """The validity of rows that Spark's reader parsed into columns."""
        rows = self._placed(rows)
        written = self.decoder.written() if self.decoder.inside.names else no_text()
        value = f.coalesce(f.col(CORRUPT), written).cast("binary")
        wrong = f.lit(False)
        for each in self.decoder.inside if self.decodes else ():
            type_ = each.dataType.simpleString()
            if has_text(type_):
                wrong = wrong | f.coalesce(f.expr(undecoded(backticked(each.name), type_)), f.lit(False))
        not_text = (wrong, Reason.MALFORMED, f.lit(NOT_TEXT))
        return self._validated(rows.withColumn(TEXT, f.col(CORRUPT)), [], [not_text], value)

    def _placed(self, rows: DataFrame) -> DataFrame:
        return rows.where(f.col(REJECTED).isNotNull() | f.expr(self.folders.is_read))

    def _validated(
        self, rows: DataFrame, first: list[Misfit], last: list[Misfit], value: Column
    ) -> DataFrame:
        rejected = f.col(REJECTED).isNotNull()
        misplaced, wrong_value = f.expr(self.folders.misplaced), f.expr(self.folders.wrong_value)
        values = dict(zip((each.name for each in self.folders.columns), self.folders.values, strict=True))
        found = [
            (
                misplaced,
                Reason.WRONG_PARTITION_DIR,
                f.lit("unexpected partition directories"),
            ),
            (wrong_value.isNotNull(), Reason.WRONG_PARTITION_DIR, f.concat(f.lit("column "), wrong_value)),
            *first,
            *self._misfits(),
            *last,
            *(
                (f.expr(values[name]).isNull(), Reason.MISSING_VALUE, f.lit(f"column {name}"))
                for name in self.required
            ),
        ]
        told = (f.get_json_object(REJECTED, f"$.{part}") for part in ("reason", "detail"))
        reason, detail = (f.when(rejected, each) for each in told)
        for condition, why, says in found:
            reason, detail = reason.when(condition, f.lit(why.value)), detail.when(condition, says)
        file = f.when(rejected, f.get_json_object(REJECTED, "$.file")).otherwise(f.expr(plain(ADDRESS)))
        names = ("topic", "partition", "offset", "timestamp", "timestamp_type", "headers", "key")
        nulls, bytes_ = (f.lit(None).alias(name) for name in names), f.when(~rejected, value)
        return rows.select(
            *(f.expr(each) for each in self.folders.selected),
            reason.alias(REASON),
            detail.alias(DETAIL),
            f.struct(file.alias("file"), *nulls, bytes_.alias("value")).cast(ROW_TYPE).alias(ROW),
            *self.carried,
        )

    def _misfits(self) -> list[Misfit]:
        """The conditions under which Spark's parser rejected a row, for each of its two reasons."""
        columns = {each.name: f.col(backticked(each.name)) for each in self.decoder.inside}
        if self.decoder.format == "text" or not columns:
            return []
        # Spark does not parse unused columns, so use all of them here.
        nulls = reduce(Column.__add__, (each.isNull().cast("int") for each in columns.values()))
        corrupt = f.col(CORRUPT).isNotNull() & (nulls >= 0)
        text = f.col(TEXT)
        malformed = self.decoder.is_malformed(text)
        says = f.lit(f"not a {self.decoder.format.upper()} row with {count_of(len(columns), 'column')}")
        return [
            (corrupt & malformed, Reason.MALFORMED, says),
            (corrupt, Reason.TYPE_MISMATCH, self.decoder.wrong(text, columns)),
        ]


def replayed_texts(replayed: DataFrame) -> DataFrame:
    """Replayed rows of the quarantine, as texts to parse again."""
    return replayed.select(
        f.col("row.value").cast("string").alias(TEXT),
        f.expr(address("row.file")).alias(ADDRESS),
        no_text().alias(REJECTED),
    )
