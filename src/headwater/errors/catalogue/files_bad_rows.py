"""Rows and files that a files source can't read: what can't be asked of it."""

from headwater.errors.problems import Entry

FILES_BAD_ROWS = Entry(
    "HW-FILES-BAD-ROWS",
    "The source `{name}` can't have `{key}`: {why}.",
    "{advice}.",
)
FILES_ADMITTED = Entry(
    "HW-FILES-ADMITTED",
    "The source `{name}` lists the files that could be opened in {folder}, and Spark passes over that list, "
    "because a folder above has one of `[ ] {{ }} * ? \\` in its name.",
    "Move the run folder (`folder:`) to a place without such characters.",
)
FILES_NOT_LOOKED_AT = Entry(
    "HW-FILES-NOT-LOOKED-AT",
    "New files of the source `{name}` can't be opened before they are read: {says}.",
    "Mend what it names. A run goes on without new files of this source, and looks again; one with "
    "`--until-idle` gives up after 30 seconds, and a start is refused.",
)
FILES_NEVER_TAKEN = Entry(
    "HW-FILES-NEVER-TAKEN",
    "Not all files of the source `{name}` could be taken in for 30 seconds: {says}. So it is not "
    "known whether all is read.",
    "What was read is committed. Mend what it names or move it away, and start again. A run without "
    "`--until-idle` goes on, and looks again.",
)
FILES_PLANNED_REJECTED = Entry(
    "HW-FILES-PLANNED-REJECTED",
    "The query `{sink}` had planned to read {files} of the source `{name}`, which can't be opened.",
    "Nothing is to be done: what `bad_rows` says happens to such a file. The checkpoint's files from before "
    "are kept in {backup}.",
)
FILES_PLANNED_STAND_IN = Entry(
    "HW-FILES-PLANNED-STAND-IN",
    "The query `{sink}` has planned a batch with a file of the source `{name}` that can't be opened and was "
    "to be set aside or dropped; with `bad_rows: {bad_rows}` it can't be read.",
    "Start once with the `bad_rows` from before until that batch is committed (`--until-idle`), and change "
    "it then.",
)
