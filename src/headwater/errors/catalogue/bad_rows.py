"""Rows that can't be read, and what becomes of them."""

from headwater.errors.problems import Entry

BAD_ROW = Entry(
    "HW-BAD-ROW",
    "A row of the source `{source}` can't be read: {reason} ({where}).",
    "Mend it where it comes from, or write `bad_rows: quarantine` at the source: bad rows are then set aside "
    "and counted, and the others go on. `drop` and `keep` are the other choices.",
)
STATIC_QUARANTINE = Entry(
    "HW-STATIC-QUARANTINE",
    "The source `{name}` is static and has `bad_rows: quarantine`, but only a stream sets rows aside: a "
    "static source is read anew for each batch.",
    "Write `bad_rows: drop`, `keep` or `fail`, or leave `static` out.",
)
NOT_JUDGED = Entry(
    "HW-BAD-ROWS-NOT-TOLD",
    "The source `{name}` has `{key}`, but a {connector} source can't tell a row that can't be read.",
    "Leave `{key}` out, and judge the rows by an expectation of a table (`expect:`).",
)
