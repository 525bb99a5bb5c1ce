"""What becomes of rows that can't be read, and of rows that fail an expectation."""

from __future__ import annotations

from enum import StrEnum


class BadRows(StrEnum):
    """What a source does with a row that can't be read."""

    FAIL = "fail"
    DROP = "drop"
    KEEP = "keep"
    QUARANTINE = "quarantine"


class Otherwise(StrEnum):
    """What a table does with a row that fails an expectation."""

    WARN = "warn"
    DROP = "drop"
    FAIL = "fail"
    QUARANTINE = "quarantine"
