"""A query written anew so that Spark sees the watermark: grouped by whole windows instead of their parts."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.plan.sql_references import NotAQuery, parsed_query

_WINDOWS = ("window", "session_window")
_PARTS = ("start", "end")
_UNITS = {"SECOND": "1 second", "MINUTE": "1 minute", "HOUR": "1 hour", "DAY": "1 day"}


def grouped_by_windows(sql: str, *, utc: bool) -> str | None:
    """The same query with whole windows in its GROUP BY; None where nothing can be written so.

    Days are windows only where the time zone is UTC, by which windows are aligned.
    """
    try:
        query = parsed_query(sql)
    except (SqlglotError, NotAQuery, RecursionError, ValueError):
        return None
    changed = [_changed(select, utc) for select in query.find_all(exp.Select)]
    return query.sql("spark", normalize_functions=False) if any(changed) else None


def _changed(select: exp.Select, utc: bool) -> bool:
    """Put whole windows into the GROUP BY of one SELECT; whether there was anything to do."""
    group = select.args.get("group")
    if group is None:
        return False
    tables = {name.lower() for name in _sources(select)}
    keys: list[exp.Expression] = []
    changed = False
    for written in group.expressions:
        key = _meant(select, written)
        whole = _whole(key, tables) or _window_of_time(select, key, utc)
        changed = changed or whole is not None
        keys.append(whole or written)
    if changed:
        group.set("expressions", list({key.sql("spark"): key for key in keys}.values()))
    return changed


def _sources(select: exp.Select) -> list[str]:
    """The names by which the columns of a SELECT may be qualified."""
    joins = [join.this for join in select.args.get("joins") or ()]
    origin = select.args.get("from") or select.args.get("from_")
    return [each.alias_or_name for each in ([origin.this] if origin else []) + joins]


def _meant(select: exp.Select, key: exp.Expression) -> exp.Expression:
    """What a key stands for that is a number or a name of the select list."""
    listed: list[exp.Expression] = select.expressions
    if isinstance(key, exp.Literal) and not key.is_string and 0 < int(key.this) <= len(listed):
        chosen = listed[int(key.this) - 1]
        return chosen.this if isinstance(chosen, exp.Alias) else chosen
    if isinstance(key, exp.Column) and not key.table:
        named = [each for each in listed if isinstance(each, exp.Alias) and each.alias == key.name]
        meant: exp.Expression = named[0].this if named else key
        return meant
    return key


def _whole(key: exp.Expression, tables: set[str]) -> exp.Expression | None:
    """The window of which a key is a part: `window(…).start`, or `w.start` of a column `w`."""
    if isinstance(key, exp.Dot) and key.expression.name.lower() in _PARTS:
        function = key.this
        if isinstance(function, exp.Anonymous) and str(function.this).lower() in _WINDOWS:
            return function.copy()
    if isinstance(key, exp.Column) and key.name.lower() in _PARTS and key.table:
        return exp.column(key.args["table"].copy()) if key.table.lower() not in tables else None
    return None


def _window_of_time(select: exp.Select, key: exp.Expression, utc: bool) -> exp.Expression | None:
    """A window in place of a time cut to its hour or its day; the select list then takes its start."""
    found = _cut(key, utc)
    if found is None:
        return None
    column, size, shown = found
    window = exp.Anonymous(this="window", expressions=[column.copy(), exp.Literal.string(size)])
    start = exp.Dot(this=window.copy(), expression=exp.to_identifier("start"))
    same = key.sql("spark")
    for listed in list(select.expressions):
        for part in [each for each in listed.walk() if each.sql("spark") == same]:
            _put(select, part, shown(start.copy()))
    return window


def _put(select: exp.Select, part: exp.Expression, start: exp.Expression) -> None:
    """Replace a part of the select list; a column that had a name by itself keeps none of its own."""
    part.replace(start if part.parent is not select else exp.alias_(start, "start"))


def _cut(
    key: exp.Expression, utc: bool
) -> tuple[exp.Expression, str, Callable[[exp.Expression], exp.Expression]] | None:
    """The time that a key cuts off, the length of the pieces, and how the start of a window shows as one."""
    if isinstance(key, exp.TimestampTrunc | exp.DateTrunc):
        size = _UNITS.get(key.args["unit"].name.upper())
        if size and (utc or size != "1 day"):
            return key.this, size, lambda start: start
    is_date = isinstance(key, exp.TsOrDsToDate | exp.Date) or (
        isinstance(key, exp.Cast) and key.to.is_type("date")
    )
    if is_date and utc:
        return key.this, "1 day", lambda start: exp.cast(start, "date")
    return None
