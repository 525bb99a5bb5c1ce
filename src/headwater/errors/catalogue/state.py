"""What can be wrong with what a query keeps, and with joins of streams."""

from headwater.errors.problems import Entry

WINDOWS_KEPT = Entry(
    "The state of {operator} in the query of `{sink}` only grows: {why}.",
    "Add {missing} (`watermark:` in the file, `withWatermark` in PySpark).",
)
COMPLETE_KEEPS_ALL = Entry(
    "The state of {operator} in the query of `{sink}` only grows: {why}.", "Use {missing}."
)
REPEATS_REMEMBERED = Entry("The state of `{operator}` in the query of `{sink}` only grows: {why}.", "{hint}")
JOIN_KEEPS_ALL = Entry(
    "The state of the join of {left} with {right} in the query of `{sink}` only grows: {why}.",
    "Add {missing}.",
)
VALUES_GROW = Entry(
    "{aggregates} in the query of `{sink}` keeps every {values} that ever came, since no key is ever over.",
    "Group by a window of a column with a watermark too, or {instead}.",
)
OUTER_JOIN_UNBOUNDED = Entry(
    "The {type} join of {left} with {right} can't tell when a row of {side} is without a partner for good.",
    "Add {missing}.",
)
ANTI_JOIN_OF_STREAMS = Entry(
    "A left anti join of two streams, {left} and {right}, is not possible in Spark.",
    "Write a LEFT JOIN with watermarks and a time range in its condition, and keep the rows whose right side "
    "IS NULL.",
)
STATIC_SIDE_PRESERVED = Entry(
    "A {type} join of the stream {stream} with static rows on the {side} is not possible: {why}.", "{hint}"
)


# What is wrong with a watermark in a query.

WINDOW_TAKEN_APART = Entry(
    "The query of `{sink}` groups by `{key}`, a part of a window: Spark sees no watermark on it, so that no "
    "window is ever over and its state grows for ever.",
    "{hint}",
)
SESSION_TAKEN_APART = Entry(
    "The query of `{sink}` groups by `{key}`, a part of a session: Spark makes one session of several rows "
    "only where the whole session is a key, so that each row would be a session of its own.",
    "{hint}",
)
WATERMARK_LOST = Entry(
    "The query of `{sink}` groups by `{key}`, which is computed from `{column}` and has lost its watermark: "
    "no group is ever over, and its state grows for ever.",
    "{hint}",
)
WATERMARK_WRONG_COLUMN = Entry(
    "The query of `{sink}` groups by windows of `{column}`, and its watermark stands on {others}: no window "
    "is ever over, and its state grows for ever.",
    "Declare the watermark on `{column}`, or make the windows of {others}.",
)
WATERMARK_ON_A_BRANCH = Entry(
    "The query of `{sink}` groups by windows of `{column}`, which has a watermark in some branches of a "
    "UNION and none in the first: no window is ever over, and its state grows for ever.",
    "Declare a watermark on `{column}` in every branch, or once on the table that holds the UNION.",
)
BRANCH_WITHOUT_WATERMARK = Entry(
    "The query of `{sink}` puts {streams} together with {others} in a UNION, and there is a "
    "watermark on {others} only: Spark holds all rows to it, so that rows of {streams} can be dropped as "
    "late by a limit that nobody set for them.",
    "Declare a watermark on {streams} too, or only one, on the table that holds the UNION (`watermark:` in "
    "the file, `withWatermark` in PySpark).",
)
WATERMARK_TWICE = Entry(
    "The rows of {streams} pass two watermarks on their way to `{sink}`, on `{first}` and on `{second}`; "
    "Spark allows one, and would fail in the first batch or never give a row.",
    "Take one of the two out.",
)
WATERMARK_AFTER_STATE = Entry(
    "The watermark on `{column}` stands after the {operator} in the query of `{sink}`, where it can clear "
    "none of what that keeps.",
    "Declare it before the {operator}: on the source {streams}, or on a table that the {operator} reads; or "
    "take it out.",
)
WATERMARK_NO_DELAY = Entry(
    "The watermark on `{column}` has no delay: every row that is older than the newest one of an earlier "
    "batch may be dropped.",
    "Give it the time by which rows of {streams} may be late, such as `10 minutes`.",
)


# What cannot change as long as a query keeps its checkpoint: its sources, its state and its output.

_FROM_SCRATCH = (
    "Undo the change, or start from scratch: give the sink a new name and a new output path, or the pipeline "
    "a new run folder (`folder:`) and new output paths."
)

STATE_CHANGED = Entry(
    "The query `{sink}` cannot resume from its checkpoint: the state of its {operator} does not match. "
    "{says}.",
    _FROM_SCRATCH,
)
STATE_OPERATORS_CHANGED = Entry(
    "The query `{sink}` cannot resume from its checkpoint: its stateful operators were {old}, and are now "
    "{new}.",
    _FROM_SCRATCH,
)
SOURCES_CHANGED = Entry(
    "The query `{sink}` cannot resume from its checkpoint: it read {old}, and now reads {new}. Spark assigns "
    "the stored offsets to the streaming sources by their order.",
    _FROM_SCRATCH,
)
SOURCE_OPTION_CHANGED = Entry(
    "The query `{sink}` cannot resume from its checkpoint: the option `{key}` of the source `{source}` was "
    "{old}, and is now {new}. Files that the source ignored before count as read.",
    _FROM_SCRATCH,
)
OUTPUT_CHANGED = Entry(
    "The query `{sink}` cannot resume from its checkpoint: `{key}` of the sink was {old}, and is now {new}.",
    _FROM_SCRATCH,
)
STATE_NOT_COMPARED = Entry(
    "Headwater could not determine {when} what the state of the query `{sink}` contains{why}, so it cannot "
    "detect changed keys, aggregates, windows or joins.",
    "Make sure that the query is the same as at its last start.",
)
