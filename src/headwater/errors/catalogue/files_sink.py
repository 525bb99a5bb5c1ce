"""What can go wrong with what a files sink has written, with its manifest and its compaction."""

from headwater.errors.problems import Entry

FILE_OUTSIDE_FOLDER = Entry(
    "HW-FILE-OUTSIDE-FOLDER",
    "The log of the folder {folder} names a file outside of it: {file}.",
    "Move the folder back (Spark's log contains absolute paths), or give the sink a new name and a new "
    "output path; it then starts from scratch.",
)
OUTPUT_AHEAD = Entry(
    "HW-OUTPUT-AHEAD",
    "{place} has the batches up to {held} of an earlier checkpoint, and the one of `{sink}` {stands}: Spark "
    "would pass over its batches up to {held}, and their rows would be lost.",
    "Give the sink a new name and a new output path, or remove {place} with its _spark_metadata, or restore "
    "the old checkpoint.",
)
OUTPUT_UNREADABLE = Entry(
    "HW-OUTPUT-UNREADABLE",
    "What the sink `{sink}` wrote before can't be read: {says}.",
    "The query can continue, but readers of {place} fail too: restore the file, or give the sink a new name "
    "and a new output path.",
)
MANIFEST_NOT_WRITTEN = Entry(
    "HW-MANIFEST-NOT-WRITTEN",
    "The manifest of the sink `{sink}` can't be written: {says}.",
    "Readers see the list of an earlier batch meanwhile; it is tried again after the next batch.",
    retry=True,
)
COMPACTION_FAILED = Entry(
    "HW-COMPACTION-FAILED",
    "The small files of the sink `{sink}` could not be rewritten: {says}.",
    "They stay as they are, and no row is lost; the next start tries again.",
    retry=True,
)
