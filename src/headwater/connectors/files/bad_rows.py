"""Bad rows and unreadable files: which sources validate them, and which keys they do not support."""

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
"""With these settings, an unreadable file does not fail the query."""

_OWN = {
    "mode": "`bad_rows` controls what happens to bad rows",
    "columnnameofcorruptrecord": "`bad_rows` stores the text of bad rows",
    "ignorecorruptfiles": "Spark would silently skip unreadable files",
    "basepath": "Headwater reads partition columns from the path of each file",
    "recursivefilelookup": "Headwater reads partition columns from the path of each file",
}
_NOT_SIFTED = ("modifiedafter", "modifiedbefore")


def required(options: FilesSource) -> tuple[str, ...]:
    """The columns that must have a value."""
    columns = options.columns.columns if options.columns else ()
    return tuple(each.name for each in columns if not each.nullable)


def validates(options: FilesSource, bad_rows: BadRows) -> bool:
    """Whether Headwater validates each row; otherwise a bad row fails in Spark's reader."""
    return bad_rows is not BadRows.FAIL or bool(required(options))


def admits(options: FilesSource, bad_rows: BadRows) -> bool:
    """Whether Headwater opens new files before a batch reads them."""
    return bad_rows in SIFTED and (options.format in BINARY or (options.format == "csv" and options.header))


def has_texts(options: FilesSource, *, admitted: bool) -> bool:
    """Whether each row is read separately as text, with its exact bytes.

    Otherwise Spark's reader splits the rows and returns the text of those that it cannot parse.
    """
    charset = options.encoding or options.given("encoding") or options.given("charset") or "utf-8"
    if options.format in BINARY or options.multi_line or charset.lower() not in ("utf-8", "utf8"):
        return False
    # Without admission, Spark compares the names in the first line.
    return not options.header or admitted


def refusals(source: SourceSpec) -> Iterator[Problem]:
    """Problems with the keys of a source that concern bad rows."""
    options = source.options
    assert isinstance(options, FilesSource), "a files source has its own options"
    if not validates(options, source.bad_rows) and source.max_row_bytes is None:
        return
    for key, why, advice in _static(source) if source.static else _streamed(source, options):
        yield FILES_BAD_ROWS_UNSUPPORTED.at(source.at(key), name=source.name, key=key, why=why, advice=advice)


def _static(source: SourceSpec) -> Iterator[tuple[str, str, str]]:
    key = next((key for key in ("bad_rows", "max_row_bytes") if (key,) in source.places), "schema")
    why = "a static source is read as a whole at every refresh, so Headwater cannot track single rows"
    if key == "schema":
        why = "a static source does not enforce `not null`"
    yield key, why, "Remove it, and check the rows with an expectation on a table (`expect:`)"


def _streamed(source: SourceSpec, options: FilesSource) -> Iterator[tuple[str, str, str]]:
    bad_rows, admitted = source.bad_rows, admits(options, source.bad_rows)
    for option in options.options:
        if option.lower() in _OWN:
            advice = "Remove the option, or remove `bad_rows` and `not null`"
            yield option, _OWN[option.lower()], advice
        elif admitted and option.lower() in _NOT_SIFTED:
            why = "Headwater checks new files before Spark reads them and cannot apply this file filter"
            yield option, why, "Remove the option, or set `bad_rows: fail`"
    if bad_rows is BadRows.KEEP and options.format in BINARY:
        why = f"in format `{options.format}`, a bad row is a whole unreadable file, so `keep` has no row to keep"
        yield "bad_rows", why, "Set `bad_rows: quarantine` or `bad_rows: drop`"
    if source.max_row_bytes is not None and not has_texts(options, admitted=admitted):
        why = "its rows are not lines or elements of UTF-8 text, so their length is unknown"
        yield "max_row_bytes", why, "Remove it"
    for path in options.path if admitted else ():
        if is_uri(path):
            why = f"Headwater can check files before reading them only in local directories, and `path` is {path}"
            yield "bad_rows", why, "Set `bad_rows: fail`"
