"""Rows and files that can't be read: which sources tell them, and what can't be asked of them."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.connectors.files.errors import FILES_BAD_ROWS_UNSUPPORTED
from headwater.connectors.files.options import FilesSource
from headwater.errors import Problem
from headwater.spec import SourceSpec
from headwater.spec.paths import is_uri
from headwater.values import BadRows

BINARY = ("avro", "orc", "parquet")
SIFTED = (BadRows.DROP, BadRows.QUARANTINE)
"""With these a file that can't be opened does not stop the query."""

_OWN = {
    "mode": "what becomes of bad rows is said by `bad_rows`",
    "columnnameofcorruptrecord": "the text of a bad row is kept by `bad_rows`",
    "ignorecorruptfiles": "a file that can't be read would be passed over in silence",
    "basepath": "the columns of folders are worked out from each file's path",
    "recursivefilelookup": "the columns of folders are worked out from each file's path",
}
_NOT_SIFTED = ("modifiedafter", "modifiedbefore")


def required(options: FilesSource) -> tuple[str, ...]:
    """The columns that must have a value."""
    columns = options.columns.columns if options.columns else ()
    return tuple(each.name for each in columns if not each.nullable)


def validates(options: FilesSource, bad_rows: BadRows) -> bool:
    """Whether each row is validated; else a row that does not fit fails in Spark's reader."""
    return bad_rows is not BadRows.FAIL or bool(required(options))


def admits(options: FilesSource, bad_rows: BadRows) -> bool:
    """Whether new files are opened before a batch takes them."""
    return bad_rows in SIFTED and (options.format in BINARY or (options.format == "csv" and options.header))


def has_texts(options: FilesSource, *, admitted: bool) -> bool:
    """Whether each row is read as a text of its own, with its exact bytes.

    Otherwise Spark's reader finds the rows and gives the text of those that it can't read.
    """
    charset = options.encoding or options.given("encoding") or options.given("charset") or "utf-8"
    if options.format in BINARY or options.multiline or charset.lower() not in ("utf-8", "utf8"):
        return False
    # Without admission the names in the first line are Spark's to compare.
    return not options.header or admitted


def refusals(source: SourceSpec) -> Iterator[Problem]:
    """What stands against the keys of a source about bad rows."""
    options = source.options
    assert isinstance(options, FilesSource), "a files source has its own options"
    if not validates(options, source.bad_rows) and source.max_row_bytes is None:
        return
    for key, why, advice in _static(source) if source.static else _streamed(source, options):
        yield FILES_BAD_ROWS_UNSUPPORTED.at(source.at(key), name=source.name, key=key, why=why, advice=advice)


def _static(source: SourceSpec) -> Iterator[tuple[str, str, str]]:
    key = next((key for key in ("bad_rows", "max_row_bytes") if (key,) in source.places), "schema")
    why = "a static source is read as a whole whenever it is refreshed, and no row of it is told from others"
    if key == "schema":
        why = "`not null` is not looked at in a static source"
    yield key, why, "Leave it out, and judge the rows by an expectation of a table (`expect:`)"


def _streamed(source: SourceSpec, options: FilesSource) -> Iterator[tuple[str, str, str]]:
    bad_rows, admitted = source.bad_rows, admits(options, source.bad_rows)
    for option in options.options:
        if option.lower() in _OWN:
            advice = "Leave the option out, or leave `bad_rows` and `not null` out"
            yield option, _OWN[option.lower()], advice
        elif admitted and option.lower() in _NOT_SIFTED:
            why = "new files are opened before they are read, and this option chooses among them"
            yield option, why, "Leave the option out, or write `bad_rows: fail`"
    if bad_rows is BadRows.KEEP and options.format in BINARY:
        why = f"a bad row of {options.format} files is a file that can't be opened, which has no row to keep"
        yield "bad_rows", why, "Write `quarantine` or `drop`"
    if source.max_row_bytes is not None and not has_texts(options, admitted=admitted):
        why = "its rows are not lines or elements of UTF-8 text, so that their length is not known"
        yield "max_row_bytes", why, "Leave it out"
    for path in options.path if admitted else ():
        if is_uri(path):
            why = f"files are opened before they are read, which works in local folders, and {path} is none"
            yield "bad_rows", why, "Write `bad_rows: fail`"
