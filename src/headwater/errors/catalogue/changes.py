"""What cannot change as long as a query keeps its checkpoint: its sources, its state and its output."""

from headwater.errors.problems import Entry

_FROM_SCRATCH = (
    "Undo the change, or start from scratch: give the sink a new name and a new output path, or the pipeline "
    "a new run folder (`folder:`) and new output paths."
)

STATE_CHANGED = Entry(
    "HW-STATE-CHANGED",
    "The query `{sink}` cannot resume from its checkpoint: the state of its {operator} does not match. "
    "{says}.",
    _FROM_SCRATCH,
)
STATE_OPERATORS_CHANGED = Entry(
    "HW-STATE-OPERATORS-CHANGED",
    "The query `{sink}` cannot resume from its checkpoint: its stateful operators were {old}, and are now "
    "{new}.",
    _FROM_SCRATCH,
)
SOURCES_CHANGED = Entry(
    "HW-SOURCES-CHANGED",
    "The query `{sink}` cannot resume from its checkpoint: it read {old}, and now reads {new}. Spark assigns "
    "the stored offsets to the streaming sources by their order.",
    _FROM_SCRATCH,
)
SOURCE_OPTION_CHANGED = Entry(
    "HW-SOURCE-OPTION-CHANGED",
    "The query `{sink}` cannot resume from its checkpoint: the option `{key}` of the source `{source}` was "
    "{old}, and is now {new}. Files that the source ignored before count as read.",
    _FROM_SCRATCH,
)
OUTPUT_CHANGED = Entry(
    "HW-OUTPUT-CHANGED",
    "The query `{sink}` cannot resume from its checkpoint: `{key}` of the sink was {old}, and is now {new}.",
    _FROM_SCRATCH,
)
STATE_NOT_COMPARED = Entry(
    "HW-STATE-NOT-COMPARED",
    "Headwater could not determine {when} what the state of the query `{sink}` contains{why}, so it cannot "
    "detect changed keys, aggregates, windows or joins.",
    "Make sure that the query is the same as at its last start.",
)
