"""The validity of each row of a file, as columns over what Spark reads."""

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

# Addresses, names and patterns that rows and files are found by, as plain text and as SQL.

TEXT, ADDRESS, CORRUPT, REJECTED = "__hw_text", "__hw_address", "__hw_corrupt", "__hw_rejected"

UNDECODED = "\ufffd"
"""What Spark's readers put in place of bytes that are no text."""
NOT_TEXT = "its bytes are not valid text"

# Characters above those of one byte, which no line that is read byte by byte can have: the line is one value.
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
    """Whether a value of the type is a text or has texts inside."""
    return "string" in type_ or "char(" in type_


def undecoded(column: str, type_: str) -> str:
    """SQL: whether a text of the column has what stands in place of bytes that are no text."""
    text = f"to_json({column})" if type_.startswith(("array<", "map<", "struct<")) else column
    return f"contains({text}, '{UNDECODED}')"


def address_of(file: Path) -> str:
    """The address of a local file, as Spark spells it."""
    return f"file://{encoded_path(file)}"


def encoded_path(path: Path | str) -> str:
    """A path as it stands in the address of a file."""
    return "/".join(encoded(part) for part in str(path).split("/"))


def plain(address: str) -> str:
    """SQL: the path of a file from its address."""
    path = f"regexp_replace({address}, '^file:/+', '/')"
    return f"url_decode(replace({path}, '+', '%2B'))"


def address(path: str) -> str:
    """SQL: the address of a file from its path."""
    spelled = path
    # The sign of encoding comes first, or it would encode what was just written.
    for char in sorted(_ODD, key=lambda each: each != "%"):
        written = {"'": "\\'", "\\": "\\\\"}.get(char, char)
        spelled = f"replace({spelled}, '{written}', '{encoded(char)}')"
    return f"if(startswith({path}, '/'), concat('file://', {spelled}), {spelled})"


def row_start(tag: str) -> str:
    """A pattern for the beginning of an xml element that is a row."""
    return rf"<{re.escape(tag)}(?=[\s/>])"


def element(tag: str) -> str:
    """A pattern for the elements of an xml text that are rows; also for comments, which are none.

    An element that never ends is taken to the end of the text, so that it is quarantined and not lost.
    """
    start = row_start(tag)
    attributes = r"""(?:[^>"'/]|"[^"]*"|'[^']*'|/(?!>))*"""
    return rf"(?s)<!--.*?-->|{start}{attributes}/>|{start}.*?(?:</{re.escape(tag)}\s*>|\z)"


_READ = "__hw_read"
_SHOWN = 100
Misfit = tuple[Column, Reason, Column]
"""A condition by which a row is bad, and what is said of it then."""


def no_text() -> Column:
    return f.lit(None).cast("string")


@dataclass(frozen=True)
class Decoder:
    """Reads the text of a row in the way of one format."""

    format: str
    inside: StructType
    """The columns that stand in the files."""
    settings: Mapping[str, str]
    """What Spark's reader of the format gets."""

    def rows(self, lines: DataFrame) -> DataFrame:
        """What was read as lines or whole files, one row for each text of a row."""
        if self.format == "xml":
            return lines.withColumn(TEXT, f.explode(self._elements()))
        return lines if self.format == "text" else lines.where(self._is_row(f.col(TEXT)))

    def replayed(self, texts: DataFrame) -> DataFrame:
        """Texts that are replayed, of which none may be lost: what is no row is to be found bad."""
        if self.format != "xml":
            return texts
        found = self._elements()
        return texts.withColumn(TEXT, f.explode(f.when(f.size(found) > 0, found).otherwise(f.array(TEXT))))

    def _elements(self) -> Column:
        """The elements of an xml text that are rows, with their exact bytes."""
        tag, text = self._given["rowtag"], f.col(TEXT)
        found = f.regexp_extract_all(text, f.lit(element(tag)), f.lit(0))
        # A pattern would change bytes that are not UTF-8; as Latin-1 each byte is a letter of its own.
        letters = f.decode(text.cast("binary"), "ISO-8859-1")
        pattern = f.lit(element(tag.encode().decode("latin-1")))
        by_bytes = f.transform(
            f.regexp_extract_all(letters, pattern, f.lit(0)),
            lambda each: f.encode(each, "ISO-8859-1").cast("string"),
        )
        found = f.when(f.is_valid_utf8(text), found).otherwise(by_bytes)
        return f.filter(found, lambda each: ~each.startswith("<!--"))

    def written(self) -> Column:
        """The text of a row whose columns Spark's reader has found, such as `typed` reads again."""
        values = f.struct(*(f.col(backticked(name)) for name in self.inside.names))
        times = {key: form for key, form in TIMES.items() if key.lower() not in self._given}
        if self.format == "csv":
            # Spark trims what it writes, and not what it reads.
            kept = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
            return f.to_csv(values, {**times, **self._options, **kept})
        return f.to_json(values, {**times, **self._options})

    def typed(self, text: Column) -> Column:
        """The columns of a text, and the text itself where it does not fit them; null where it has none."""
        if self.format == "text":
            return f.struct(text.alias(self.inside.names[0]), no_text().alias(CORRUPT))
        return self._parsed(text, self.inside)

    def is_malformed(self, text: Column) -> Column:
        """Whether a text that does not fit is none of the format at all, or has other fields."""
        if self.is_whole:
            return f.get_json_object(text, "$").isNull()
        parsed = self._as_strings(text)
        return parsed.isNull() | parsed[CORRUPT].isNotNull()

    def _as_strings(self, text: Column) -> Column:
        return self._parsed(text, StructType([StructField(each.name, StringType()) for each in self.inside]))

    def goes_on(self, text: Column) -> Column:
        """Whether more follows the first value of a text, which Spark would pass over in silence."""
        return more_follows(text, self._options) if self.format == "json" else f.lit(False)

    def wrong(self, text: Column, typed: Mapping[str, Column]) -> Column:
        """Which column a text that is well formed does not fit, with the value; null where none is found."""
        strings, found = self._as_strings(text), []
        if self.is_whole:
            # Which row of many it was can't be told: Spark keeps the text of all.
            found.append(f.when(text.rlike(r"^\s*\["), f.lit("a value does not fit its column")))
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
        """Whether a text may be that of a whole file with many rows."""
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
        """Whether a text may be a row; Spark's parsers make nulls of some that are none."""
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
    """Puts the validity beside each row that was read below one path."""

    decoder: Decoder
    folders: Folders
    required: tuple[str, ...]
    max_row_bytes: int | None
    decodes: bool = False
    """Spark's reader of the format makes text of bytes, and puts U+FFFD where it can't."""
    carried: tuple[str, ...] = ()
    """Columns that are handed on as they are."""

    def texts(self, rows: DataFrame) -> DataFrame:
        """The validity of rows of which each has its text, its address, and what was rejected."""
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
        longer = (self.decoder.goes_on(text), Reason.MALFORMED, f.lit("more follows in the same line"))
        return self._validated(rows, [large, not_text], [longer], f.col(TEXT).cast("binary"))

    def read(self, rows: DataFrame) -> DataFrame:
        """The validity of rows that Spark's reader made columns of."""
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
            (misplaced, Reason.WRONG_FOLDER, f.lit("its key=value folders are not those of the source")),
            (wrong_value.isNotNull(), Reason.WRONG_FOLDER, f.concat(f.lit("column "), wrong_value)),
            *first,
            *self._misfits(),
            *last,
            *(
                (f.expr(values[name]).isNull(), Reason.MISSING, f.lit(f"column {name}"))
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
        """Whether Spark's parser has kept the text of a row, and which of the two reasons it had."""
        columns = {each.name: f.col(backticked(each.name)) for each in self.decoder.inside}
        if self.decoder.format == "text" or not columns:
            return []
        # Spark leaves columns out that nobody asks for, and does not parse them then: here all are asked for.
        nulls = reduce(Column.__add__, (each.isNull().cast("int") for each in columns.values()))
        corrupt = f.col(CORRUPT).isNotNull() & (nulls >= 0)
        text = f.col(TEXT)
        malformed = self.decoder.is_malformed(text)
        says = f.lit(f"no {self.decoder.format} row with these {len(columns)} columns")
        return [
            (corrupt & malformed, Reason.MALFORMED, says),
            (corrupt, Reason.WRONG_TYPE, self.decoder.wrong(text, columns)),
        ]


def replayed_texts(replayed: DataFrame) -> DataFrame:
    """Rows of an earlier quarantine, as rows that are read anew."""
    return replayed.select(
        f.col("row.value").cast("string").alias(TEXT),
        f.expr(address("row.file")).alias(ADDRESS),
        no_text().alias(REJECTED),
    )
