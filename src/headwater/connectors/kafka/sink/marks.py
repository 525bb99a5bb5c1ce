"""The headers by which a reader tells a message that was written twice, as SQL.

A message is known by three headers: the id of the query, the number of the batch, and the row: a hash of all
that the message holds, with its number among equal ones of the batch. A batch that runs again gives the same
rows, so the same set of marks; which of two equal rows has which number does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.connectors.kafka.sink.message import HEADERS_TYPE, literal

QUERY = "headwater-query"
BATCH = "headwater-batch"
ROW = "headwater-row"
MARKS = (QUERY, BATCH, ROW)

PARTS = ("topic", "key", "value", "partition", "headers")
_NULL = "CAST('-' AS binary)"


def row_hash(parts: Iterable[str]) -> str:
    """SHA-256 over the parts that are there, each with its length before it, so that no two rows look alike.

    In order: topic, key, value, partition, headers. A part is its length in bytes, a colon and its bytes; a
    null, or a part that is not there, is a hyphen. Headers are their number, a colon, then name and value of
    each, as parts.
    """
    there = set(parts)
    encoded = (_encoded(part) if part in there else _NULL for part in PARTS)
    return f"sha2(concat({', '.join(encoded)}), 256)"


def with_marks(*, query: str, batch: str, row: str, has_headers: bool) -> str:
    """The headers of a message with the three marks, in place of those of an earlier pipeline."""
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
    # A number is taken as the text that it is written as.
    return _sized("CAST(`partition` AS string)" if part == "partition" else f"`{part}`")


def _sized(sql: str) -> str:
    length = _count(f"octet_length(CAST({sql} AS binary))")
    return _unless_null(sql, f"concat({length}, CAST({sql} AS binary))")


def _count(sql: str) -> str:
    return f"CAST(concat(CAST({sql} AS string), ':') AS binary)"


def _unless_null(sql: str, encoded: str) -> str:
    return f"CASE WHEN {sql} IS NULL THEN {_NULL} ELSE {encoded} END"
