"""What keeps a query from running in the mode of its sink."""

from headwater.errors.problems import Entry

NEVER_FINAL = Entry(
    "HW-NEVER-FINAL",
    "The sink `{sink}` is in append mode, which gives a row once it is final, and {rows} never is: {why}.",
    "{hint}",
)
NOTHING_TO_COMPLETE = Entry(
    "HW-NOTHING-TO-COMPLETE",
    "The sink `{sink}` is in complete mode, which gives the whole result each time, and without an "
    "aggregation that is every row that ever came.",
    "{hint}",
)
SESSIONS_IN_UPDATE = Entry(
    "HW-SESSIONS-IN-UPDATE",
    "The sink `{sink}` is in update mode, and session windows of {keys} can't be given so: two sessions "
    "may grow into one, and what was given for them can't be taken back.",
    "{hint}",
)
RESULTS_COUNTED_AGAIN = Entry(
    "HW-RESULTS-COUNTED-AGAIN",
    "{later} reads the results of {earlier}, and in {mode} mode these come again each time they change.",
    "{hint}",
)
JOIN_IN_MODE = Entry(
    "HW-JOIN-IN-MODE",
    "The {type} join of two streams can't be in {mode} mode: {why}.",
    "{hint}",
)
LIMIT_IN_UPDATE = Entry(
    "HW-LIMIT-IN-UPDATE",
    "The sink `{sink}` is in update mode, and `LIMIT` can't be: rows that were given would have to be taken "
    "back when others change.",
    "{hint}",
)
UNION_IN_COMPLETE = Entry(
    "HW-UNION-IN-COMPLETE",
    "The sink `{sink}` is in complete mode, and a part of its UNION is not aggregated: of that part each "
    "batch would give only the new rows, and the older ones would be gone.",
    "Give each part a sink of its own, or use update mode.",
)
STATE_MODE = Entry(
    "HW-STATE-MODE",
    "The sink `{sink}` is in {mode} mode, and `{call}` gives it rows in {given} mode.",
    "{hint}",
)
STATE_AGGREGATED = Entry(
    "HW-STATE-AGGREGATED",
    "The query of the sink `{sink}` aggregates the rows of `{call}` in update mode, and would count a row "
    "again each time it changes.",
    'Let `{call}` give rows that stay as they are, with `outputMode="append"`.',
)
STATE_AFTER_RESULTS = Entry(
    "HW-STATE-AFTER-RESULTS",
    "`{call}` reads the results of an aggregation, which Spark does not take.",
    "Aggregate inside `{call}`, or write the results with a sink and read that in another pipeline.",
)
