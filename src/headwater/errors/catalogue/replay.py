"""What follows from a source whose rows can't be read a second time."""

from headwater.errors.problems import Entry

NOT_REPLAYABLE = Entry(
    "HW-NOT-REPLAYABLE",
    "The rows of the source `{name}` ({connector}) can't be read again: what a batch that fails had taken, "
    "and what is sent while nothing runs, is lost.",
    "Good for trying things out; for rows that count, read a source that keeps them, such as `files`.",
)
NOT_REPLAYABLE_SHARED = Entry(
    "HW-NOT-REPLAYABLE-SHARED",
    "The sinks {sinks} all read the source `{name}` ({connector}), and each would get other rows.",
    "Leave one of them; or let one `files` sink store the rows, and read its folder in another pipeline.",
)
NOT_REPLAYABLE_TWICE = Entry(
    "HW-NOT-REPLAYABLE-TWICE",
    "The query of the sink `{sink}` would read the source `{name}` ({connector}) {count} times over, and "
    "each time get other rows.",
    "Let a `files` sink store the rows, and join them in another pipeline that reads its folder.",
)
NOT_REPLAYABLE_CHECKPOINT = Entry(
    "HW-NOT-REPLAYABLE-CHECKPOINT",
    "The query `{sink}` can't go on from its checkpoint: the source `{name}` ({connector}) begins anew at "
    "each start.",
    "Begin anew: remove {checkpoint}, and what a `files` sink wrote with it.",
)
