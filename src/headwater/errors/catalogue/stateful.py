"""What is wrong with arbitrary state in a query."""

from headwater.errors.problems import Entry

STATE_AGGREGATED = Entry(
    "HW-STATE-AGGREGATED",
    "The query of the sink `{sink}` aggregates the rows of `{call}` in update mode, and would count a row "
    "again each time it changes.",
    'Let the table give rows that stay as they are, with `outputMode="append"`.',
)
STATE_UPDATES = Entry(
    "HW-STATE-UPDATES",
    "The sink `{sink}` is in append mode, and `{call}` gives it rows in update mode.",
    'Write `mode: update` at the sink, or `outputMode="append"` in the table if its rows stay as they are.',
)
