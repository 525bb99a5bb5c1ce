"""Analyzes SQL conditions without Spark: certain errors, and the columns they use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeGuard
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import TokenType

from headwater.plan.graph import NotAQuery, parsed_query
from headwater.plan.sql_syntax import Fault, place_in
from headwater.spec import TableSpec

# sqlglot takes these for names where no parentheses follow, and Spark for functions.
_FUNCTIONS = frozenset(
    {
        "current_catalog", "current_database", "current_date", "current_schema", "current_time",
        "current_timestamp", "current_timezone", "current_user", "localtimestamp", "now", "session_user",
        "user",
    }
)  # fmt: skip


def names_metadata(table: TableSpec) -> bool:
    """Whether the SQL of a table uses the name `_metadata`, not only in a string or a comment."""
    sql = table.sql or ""
    if "_metadata" not in sql.lower():
        return False
    try:
        tokens = Spark().tokenize(sql)
    except SqlglotError:
        return True
    named = (each.text.lower() for each in tokens if each.token_type in (TokenType.VAR, TokenType.IDENTIFIER))
    return "_metadata" in named


@dataclass(frozen=True)
class ColumnReference:
    """A column that a condition uses: its parts (the path into a struct) and its position."""

    parts: tuple[str, ...]
    line: int = 1
    column: int = 1

    @property
    def name(self) -> str:
        return ".".join(self.parts)


def fault_in(check: str) -> Fault | None:
    """A certain error; None if there is none, or only Spark can tell."""
    try:
        trees = _trees(check)
    except TokenError:
        return Fault("a quote is not closed")
    except ParseError as error:
        # A missing operand or an unclosed parenthesis; Spark may accept anything else.
        first = error.errors[0] if error.errors else {}
        description = str(first.get("description", ""))
        place = int(first.get("line") or 1), int(first.get("col") or 1)
        if description.startswith("Required keyword"):
            return Fault("an operator is missing an operand", *place)
        return Fault("a `)` is missing", *place) if description == "Expecting )" else None
    except (SqlglotError, RecursionError, ValueError):
        return None
    if len(trees) == 1:
        return None
    return Fault("it contains several statements" if trees else "it is empty")


def columns_asked(check: str) -> tuple[ColumnReference, ...]:
    """The columns that a condition uses, as far as they are certainly columns of the table."""
    try:
        trees = _trees(check)
    except (SqlglotError, RecursionError, ValueError):
        return ()
    # The names of a lambda's arguments and the columns of a subquery are not those of the table.
    if len(trees) != 1 or trees[0].find(exp.Lambda, exp.Query):
        return ()
    columns = [column for column in trees[0].find_all(exp.Column) if not isinstance(column.this, exp.Star)]
    asked = (
        ColumnReference(
            tuple(part.name for part in column.parts),
            *place_in(check, column.parts[0].meta.get("start", 0)),
        )
        for column in columns
    )
    return tuple(each for each in asked if len(each.parts) > 1 or each.name.lower() not in _FUNCTIONS)


def _trees(check: str) -> list[exp.Expr]:
    dialect = Spark()
    parsed = dialect.parser().parse(dialect.tokenize(check), check)
    return [tree for tree in parsed if tree is not None and not isinstance(tree, exp.Semicolon)]


# Rewrites a query so that Spark sees the watermark: grouped by whole windows instead of their parts.

_WINDOWS = ("window", "session_window")
_PARTS = ("start", "end")
_AFTER = ("having", "order", "qualify")
_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400}
_SIZES = {1: "1 second", 60: "1 minute", 3_600: "1 hour", 86_400: "1 day"}


def grouped_by_windows(sql: str, timezone: str) -> str | None:
    """The query with whole windows in its GROUP BY; None if it cannot be rewritten.

    Windows are aligned to UTC: hours and days of other time zones are windows only if they start at the same
    time as those of UTC.
    """
    longest = _longest_aligned(timezone)
    try:
        query = parsed_query(sql)
    except (SqlglotError, NotAQuery, RecursionError, ValueError):
        return None
    changed = [_changed(select, longest) for select in query.find_all(exp.Select)]
    return query.sql("spark", normalize_functions=False) if any(changed) else None


def _changed(select: exp.Select, longest: int) -> bool:
    """Put whole windows into the GROUP BY of one SELECT; returns whether it changed."""
    group = select.args.get("group")
    if group is None:
        return False
    # The names by which the columns of the SELECT may be qualified.
    origin = select.args.get("from") or select.args.get("from_")
    sources = [each.this for each in (origin, *(select.args.get("joins") or ())) if each]
    tables = {each.alias_or_name.lower() for each in sources}
    meant = [_meant(select, written) for written in group.expressions]
    windows = [_whole(key, tables) or _window_of(key, longest) or key for key in meant]
    # Spark takes no more than one window in a GROUP BY.
    if len({each.sql("spark") for each in windows if _is_window(each)}) > 1:
        return False
    wholes = [_whole(key, tables) or _window_of_time(select, key, longest) for key in meant]
    if not any(wholes):
        return False
    keys = [whole or written for whole, written in zip(wholes, group.expressions, strict=True)]
    group.set("expressions", list({key.sql("spark"): key for key in keys}.values()))
    # After a GROUP BY its columns are gone: HAVING and ORDER BY know a window by its name alone.
    for clause in filter(None, (select.args.get(name) for name in _AFTER)):
        for part in list(clause.find_all(exp.Dot)):
            if _is_window(part.this):
                part.replace(exp.column(part.expression.copy(), table=str(part.this.this).lower()))
    return True


def _is_window(call: object) -> TypeGuard[exp.Anonymous]:
    return isinstance(call, exp.Anonymous) and str(call.this).lower() in _WINDOWS


def _meant(select: exp.Select, key: exp.Expression) -> exp.Expression:
    """The expression behind a key that is a number or a name of the select list."""
    listed: list[exp.Expression] = select.expressions
    if isinstance(key, exp.Literal) and not key.is_string and 0 < int(key.this) <= len(listed):
        chosen = listed[int(key.this) - 1]
        return chosen.this if isinstance(chosen, exp.Alias) else chosen
    if isinstance(key, exp.Column) and not key.table:
        named = (each.this for each in listed if isinstance(each, exp.Alias) and each.alias == key.name)
        return next(named, key)
    return key


def _whole(key: exp.Expression, tables: set[str]) -> exp.Expression | None:
    """The window of which a key is a part: `window(…).start`, or `w.start` of a column `w`."""
    if isinstance(key, exp.Dot) and key.expression.name.lower() in _PARTS and _is_window(key.this):
        return key.this.copy()
    if isinstance(key, exp.Column) and key.name.lower() in _PARTS and key.table:
        return exp.column(key.args["table"].copy()) if key.table.lower() not in tables else None
    return None


def _window_of_time(select: exp.Select, key: exp.Expression, longest: int) -> exp.Expression | None:
    """Replace a time truncated to its hour or day with a window; the select list then uses its start."""
    found, window = _cut(key, longest), _window_of(key, longest)
    if found is None or window is None:
        return None
    shown = found[2]
    start = exp.Dot(this=window.copy(), expression=exp.to_identifier("start"))
    same = key.sql("spark")
    for clause in [*select.expressions, *filter(None, (select.args.get(name) for name in _AFTER))]:
        for part in [each for each in clause.walk() if each.sql("spark") == same]:
            new = shown(start.copy())
            # A column with an implicit name needs no alias.
            part.replace(new if part.parent is not select else exp.alias_(new, "start"))
    return window


def _window_of(key: exp.Expression, longest: int) -> exp.Expression | None:
    """The window that equals a time truncated to its hour or day."""
    found = _cut(key, longest)
    if found is None:
        return None
    return exp.Anonymous(this="window", expressions=[found[0].copy(), exp.Literal.string(found[1])])


def _cut(
    key: exp.Expression, longest: int
) -> tuple[exp.Expression, str, Callable[[exp.Expression], exp.Expression]] | None:
    """The time that a key truncates, the unit, and how to write the start of a window in the same form."""
    if isinstance(key, exp.TimestampTrunc | exp.DateTrunc):
        seconds = _UNITS.get(key.args["unit"].name.upper())
        if seconds and seconds <= longest:
            return key.this, _SIZES[seconds], lambda start: start
    is_date = isinstance(key, exp.TsOrDsToDate | exp.Date) or (
        isinstance(key, exp.Cast) and key.to.is_type("date")
    )
    if is_date and longest >= _UNITS["DAY"]:
        return key.this, "1 day", lambda start: exp.cast(start, "date")
    return None


def _longest_aligned(timezone: str) -> int:
    """The longest unit, in seconds, that is aligned with UTC in a time zone."""
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError):
        return _UNITS["SECOND"]
    # Two moments of each of some years tell the offsets that a zone has had.
    moments = (datetime(year, month, 1, tzinfo=UTC) for year in range(1972, 2040) for month in (1, 7))
    offsets = {round((zone.utcoffset(each) or timedelta()).total_seconds()) for each in moments}
    return max(unit for unit in _SIZES if all(offset % unit == 0 for offset in offsets))
