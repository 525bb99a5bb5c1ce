"""Rows with a verdict: what a source's `read_judged` gives, and what its quarantine keeps.

A judged row has the columns that the user declared and three more. REASON is null for a good row; for a bad
one it is one of the reasons below, DETAIL says more, and the user's columns hold what could be read.
ROW is the row as it came. Nobody computes it but the quarantine, so it must stay a column of its own.
"""

from __future__ import annotations

from enum import StrEnum

REASON = "__hw_reason"
DETAIL = "__hw_detail"
ROW = "__hw_row"
OWN = (REASON, DETAIL, ROW)

METADATA = "__hw_metadata"
"""Where a row of a file came from; SQL tables see it as `_metadata`."""

# What `bad_rows: keep` leaves in the table.
KEPT_REASON = "_bad_reason"
KEPT_TEXT = "_bad_text"

ROW_TYPE = (
    "struct<file: string, topic: string, partition: int, offset: bigint, timestamp: timestamp, "
    "timestamp_type: int, headers: array<struct<key: string, value: binary>>, key: binary, value: binary>"
)
"""Where a row stood (a file, or a place in a topic) and its bytes; a file that can't be opened has none."""

QUARANTINE_COLUMNS = f"source string, reason string, detail string, set_aside_at timestamp, row {ROW_TYPE}"
"""The columns of a quarantine; of a table's, `row.value` is the row as JSON."""


class Reason(StrEnum):
    """Why a row is bad."""

    MALFORMED = "malformed"
    WRONG_TYPE = "wrong type"
    MISSING = "missing"
    TOO_LARGE = "too large"
    UNKNOWN_SCHEMA = "unknown schema id"
    UNREADABLE_FILE = "unreadable file"
    WRONG_FOLDER = "wrong folder"
    EXPECTATION = "expectation"
