"""What can be wrong with what a query keeps, and with joins of streams."""

from headwater.errors.problems import Entry

WINDOWS_KEPT = Entry(
    "HW-WINDOWS-KEPT",
    "The state of {operator} in the query of `{sink}` only grows: {why}.",
    "Add {missing} (`watermark:` in the file, `withWatermark` in PySpark).",
)
COMPLETE_KEEPS_ALL = Entry(
    "HW-COMPLETE-KEEPS-ALL",
    "The state of {operator} in the query of `{sink}` only grows: {why}.",
    "Use {missing}.",
)
REPEATS_REMEMBERED = Entry(
    "HW-REPEATS-REMEMBERED",
    "The state of `{operator}` in the query of `{sink}` only grows: {why}.",
    "{hint}",
)
JOIN_KEEPS_ALL = Entry(
    "HW-JOIN-KEEPS-ALL",
    "The state of the join of {left} with {right} in the query of `{sink}` only grows: {why}.",
    "Add {missing}.",
)
VALUES_GROW = Entry(
    "HW-VALUES-GROW",
    "{aggregates} in the query of `{sink}` keeps every {values} that ever came, since no key is ever over.",
    "Group by a window of a column with a watermark too, or {instead}.",
)
OUTER_JOIN_UNBOUNDED = Entry(
    "HW-OUTER-JOIN-UNBOUNDED",
    "The {type} join of {left} with {right} can't tell when a row of {side} is without a partner for good.",
    "Add {missing}.",
)
ANTI_JOIN_OF_STREAMS = Entry(
    "HW-ANTI-JOIN-OF-STREAMS",
    "A left anti join of two streams, {left} and {right}, is not possible in Spark.",
    "Write a LEFT JOIN with watermarks and a time range in its condition, and keep the rows whose right side "
    "IS NULL.",
)
STATIC_SIDE_PRESERVED = Entry(
    "HW-STATIC-SIDE-PRESERVED",
    "A {type} join of the stream {stream} with static rows on the {side} is not possible: {why}.",
    "{hint}",
)
