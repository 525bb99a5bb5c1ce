"""Expectations: conditions that can't be judged, rows that fail them, rows that can't be set aside."""

from headwater.errors.problems import Entry

EXPECTATION_SYNTAX = Entry(
    "HW-EXPECTATION-SYNTAX",
    "The expectation `{expectation}` of the table `{table}` is no SQL: {says}.",
    "Write a condition over the table's columns, such as `cost >= 0`.",
)
EXPECTATION_COLUMN = Entry(
    "HW-EXPECTATION-COLUMN",
    "The expectation `{expectation}` of the table `{table}` asks for `{column}`, which is no column of it.",
    "{hint}",
)
EXPECTATION_NOT_BOOLEAN = Entry(
    "HW-EXPECTATION-NOT-BOOLEAN",
    "The expectation `{expectation}` of the table `{table}` gives {type}; true or false is wanted.",
    "Compare it with something, such as `cost >= 0`.",
)
EXPECTATION_NOT_OF_A_ROW = Entry(
    "HW-EXPECTATION-NOT-OF-A-ROW",
    "The expectation `{expectation}` of the table `{table}` has {what} in it, and each row is judged alone.",
    "Work it out in the table's own query, and let the condition ask for the column.",
)
EXPECTATION_NOT_CERTAIN = Entry(
    "HW-EXPECTATION-NOT-CERTAIN",
    "The expectation `{expectation}` of the table `{table}` has `{part}` in it, which may give another value "
    "each time: a batch that runs again would judge its rows otherwise.",
    "Leave `{part}` out, or judge by a column that a row brings along.",
)
EXPECTATION_REFUSED = Entry(
    "HW-EXPECTATION-REFUSED",
    "Spark does not take the expectation `{expectation}` of the table `{table}`: {says}.",
    "Mend the condition and run `headwater check` again.",
)
EXPECTATION_FAILED = Entry(
    "HW-EXPECTATION-FAILED",
    "A row of the table `{table}` fails the expectation `{expectation}` (`{check}`): {row}.",
    "Mend the row where it comes from or the condition, and run again: the batch is computed anew. With "
    "`else: quarantine` such rows are set aside, with `else: drop` left out, and the others go on.",
)
EXPECTATION_UNMET = Entry(
    "HW-EXPECTATION-UNMET",
    "{sink}: {rows} of {all} rows of the table `{table}` fail the expectation `{expectation}` in batch "
    "{batch}; {what}.",
    "From now on they are only counted; the summary of the run has the number.",
)
EXPECTATION_NOT_REPLAYABLE = Entry(
    "HW-EXPECTATION-NOT-REPLAYABLE",
    "The table `{table}` sets rows aside, which takes a query of its own, but its source `{source}` "
    "({connector}) gives each row to one query only.",
    "Write `else: drop` or `else: fail` at the expectation `{expectation}`, or take a source that keeps its "
    "rows, such as files or Kafka.",
)
EXPECTATION_STATEFUL = Entry(
    "HW-EXPECTATION-STATEFUL",
    "The table `{table}` sets rows aside, but its rows come out of {operator}, which keeps state: the query "
    "that sets them aside would keep it all a second time, and may see other results.",
    "Let a table below {operator} set rows aside, or write `else: drop` or `else: fail` at the expectation "
    "`{expectation}`.",
)
EXPECTATION_NOT_SETTLED = Entry(
    "HW-EXPECTATION-NOT-SETTLED",
    "The table `{table}` sets rows aside, but `{part}` may be another value in the query that sets them "
    "aside: a row could go on and be set aside as well, or neither.",
    "Judge by columns that a row brings along, or write `else: drop` at the expectation `{expectation}`.",
)
EXPECTATION_REFRESHED = Entry(
    "HW-EXPECTATION-REFRESHED",
    "The table `{table}` sets rows aside, and its static source `{source}` is refreshed ({refresh}): the "
    "query that sets rows aside may see other rows of it, so that a row could go on and be set aside as "
    "well, or neither.",
    "Write `refresh: never` at the source `{source}`, or judge by columns that don't come from it, or write "
    "`else: drop` at the expectation `{expectation}`.",
)
EXPECTATION_STATIC = Entry(
    "HW-EXPECTATION-STATIC",
    "The table `{table}` sets rows aside, but it reads no stream, and only a stream sets rows aside.",
    "Write `else: drop` or `else: fail` at the expectation `{expectation}`.",
)
