"""What keeps a batch that runs again from giving the same rows."""

from headwater.errors.problems import Entry

NOT_REPEATABLE = Entry(
    "HW-NOT-REPEATABLE",
    "{what} gives another value when a batch runs again after a crash ({why}), so the sink `{sink}` "
    "({connector}) is not exactly once.",
    "{hint}",
)
STATE_NOT_REPEATABLE = Entry(
    "HW-STATE-NOT-REPEATABLE",
    "{what} reaches the state of the query and gives another value when a batch runs again after a crash "
    "({why}): what the sink `{sink}` ({connector}) got before the crash and what the state holds after it "
    "may disagree, and whoever reads the sink can miss rows or see them twice.",
    "{hint}",
)
EVENT_TIME_NOT_REPEATABLE = Entry(
    "HW-EVENT-TIME-NOT-REPEATABLE",
    "A watermark stands on a column that is made from {what}, which gives another value each time ({why}): "
    "which rows are late, and into which window a row falls, is then left to chance.",
    "Put the watermark on a time that the rows bring with them, or on `current_timestamp()` for the time at "
    "which they come in.",
)
ORDER_DECIDES = Entry(
    "HW-ORDER-DECIDES",
    "{what} depends on the order of the rows, and a stream promises none within a batch: a batch that runs "
    "again may give another value.",
    "{hint}",
)
