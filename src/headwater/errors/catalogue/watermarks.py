"""What is wrong with a watermark in a query."""

from headwater.errors.problems import Entry

WINDOW_TAKEN_APART = Entry(
    "HW-WINDOW-TAKEN-APART",
    "The query of `{sink}` groups by `{key}`, a part of a window: Spark sees no watermark on it, so that no "
    "window is ever over and its state grows for ever.",
    "{hint}",
)
SESSION_TAKEN_APART = Entry(
    "HW-SESSION-TAKEN-APART",
    "The query of `{sink}` groups by `{key}`, a part of a session: Spark makes one session of several rows "
    "only where the whole session is a key, so that each row would be a session of its own.",
    "{hint}",
)
WATERMARK_LOST = Entry(
    "HW-WATERMARK-LOST",
    "The query of `{sink}` groups by `{key}`, which is computed from `{column}` and has lost its watermark: "
    "no group is ever over, and its state grows for ever.",
    "{hint}",
)
WATERMARK_WRONG_COLUMN = Entry(
    "HW-WATERMARK-WRONG-COLUMN",
    "The query of `{sink}` groups by windows of `{column}`, and its watermark stands on {others}: no window "
    "is ever over, and its state grows for ever.",
    "Declare the watermark on `{column}`, or make the windows of {others}.",
)
WATERMARK_ON_A_BRANCH = Entry(
    "HW-WATERMARK-ON-A-BRANCH",
    "The query of `{sink}` groups by windows of `{column}`, which has a watermark in some branches of a "
    "UNION and none in the first: no window is ever over, and its state grows for ever.",
    "Declare a watermark on `{column}` in every branch, or once on the table that holds the UNION.",
)
BRANCH_WITHOUT_WATERMARK = Entry(
    "HW-BRANCH-WITHOUT-WATERMARK",
    "The query of `{sink}` puts {streams} together with {others} in a UNION, and there is a "
    "watermark on {others} only: Spark holds all rows to it, so that rows of {streams} can be dropped as "
    "late by a limit that nobody set for them.",
    "Declare a watermark on {streams} too, or only one, on the table that holds the UNION (`watermark:` in "
    "the file, `withWatermark` in PySpark).",
)
WATERMARK_TWICE = Entry(
    "HW-WATERMARK-TWICE",
    "The rows of {streams} pass two watermarks on their way to `{sink}`, on `{first}` and on `{second}`; "
    "Spark allows one, and would fail in the first batch or never give a row.",
    "Take one of the two out.",
)
WATERMARK_AFTER_STATE = Entry(
    "HW-WATERMARK-AFTER-STATE",
    "The watermark on `{column}` stands after the {operator} in the query of `{sink}`, where it can clear "
    "none of what that keeps.",
    "Declare it before the {operator}: on the source {streams}, or on a table that the {operator} reads; or "
    "take it out.",
)
WATERMARK_NO_DELAY = Entry(
    "HW-WATERMARK-NO-DELAY",
    "The watermark on `{column}` has no delay: every row that is older than the newest one of an earlier "
    "batch may be dropped.",
    "Give it the time by which rows of {streams} may be late, such as `10 minutes`.",
)
