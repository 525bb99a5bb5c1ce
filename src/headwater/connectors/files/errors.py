"""What can go wrong with files, as a source and as a sink."""

from headwater.errors import Entry, name_entries

# Rows and files that a source can't read: what can't be asked of it.

FILES_BAD_ROWS_UNSUPPORTED = Entry("The source `{name}` can't have `{key}`: {why}.", "{advice}.")
RUN_DIR_PATH_INVALID = Entry(
    "The source `{name}` lists the files that could be opened in {folder}, and Spark passes over that list, "
    "because a folder above has one of `[ ] {{ }} * ? \\` in its name.",
    "Move the run folder (`folder:`) to a place without such characters.",
)
FILES_VALIDATION_FAILED = Entry(
    "New files of the source `{name}` can't be opened before they are read: {says}.",
    "Mend what it names. A run goes on without new files of this source, and looks again; one with "
    "`--until-idle` gives up after 30 seconds, and a start is refused.",
)
FILES_UNREADABLE = Entry(
    "Not all files of the source `{name}` could be taken in for 30 seconds: {says}. So it is not "
    "known whether all is read.",
    "What was read is committed. Mend what it names or move it away, and start again. A run without "
    "`--until-idle` goes on, and looks again.",
)
FILES_BATCH_REWRITTEN = Entry(
    "The query `{sink}` had planned to read {files} of the source `{name}`, which can't be opened.",
    "Nothing is to be done: what `bad_rows` says happens to such a file. The checkpoint's files from before "
    "are kept in {backup}.",
)
FILES_BATCH_PENDING = Entry(
    "The query `{sink}` has planned a batch with a file of the source `{name}` that can't be opened and was "
    "to be set aside or dropped; with `bad_rows: {bad_rows}` it can't be read.",
    "Start once with the `bad_rows` from before until that batch is committed (`--until-idle`), and change "
    "it then.",
)


# What can go wrong with what a files sink has written, with its manifest and its compaction.

MANIFEST_WRITE_FAILED = Entry(
    "The manifest of the sink `{sink}` can't be written: {says}.",
    "Readers see the list of an earlier batch meanwhile; it is tried again after the next batch.",
    retry=True,
)
COMPACTION_FAILED = Entry(
    "The small files of the sink `{sink}` could not be rewritten: {says}.",
    "They stay as they are, and no row is lost; the next start tries again.",
    retry=True,
)


# What can go wrong with the files that a source reads: their folders, and their clean-up.

PARTITION_KEYS_MIXED = Entry(
    "The files of the source `{name}` lie in folders with different keys: {one} and {other}.",
    "Move one of them away, or declare a source for each kind of folder.",
)
PARTITION_KEY_MISSING = Entry(
    "The source `{name}` has files in `{key}=…` folders, and its schema has no column `{key}`: {file}.",
    "Add `{key}` with its type to the schema, or move the folder away; "
    "`options: {{recursiveFileLookup: true}}` reads the files without it.",
)
PARTITION_KEY_TYPE = Entry(
    "The column `{key}` of the source `{name}` is {type}, which the name of a folder can't hold.",
    "Give it a plain type, such as string, int or date.",
)
PARTITION_DIR_UNEXPECTED = Entry(
    "The query `{sink}` met a file of the source `{source}` in unexpected key=value folders: {path}.",
    "Move it to where it belongs and start again, or declare a source of its own for such folders.",
)
PARTITION_VALUE_INVALID = Entry(
    "The query `{sink}` met a folder of the source `{source}` whose value does not fit its column: {path}.",
    "Rename the folder or change the type in the schema, and start again.",
)
FILES_NAME_UNSUPPORTED = Entry(
    "The query `{sink}` found a file of the source `{source}` with one of `[ ] {{ }} * ? \\` in its path, "
    "and with the option `basePath` Spark would duplicate the rows of its batch: {path}.",
    "Remove the option `basePath` from the source, and start again.",
)
FILES_PATH_IS_GLOB = Entry(
    "Source `{name}`: {path} exists, but `path` is a glob that does not match it.",
    "Write `{escaped}` to read this directory or file, or rename it.",
)
FILES_PATH_INVALID = Entry(
    "The source `{name}` streams {path}, where a files sink lists what counts; Spark passes over that list, "
    "because a folder above has one of `[ ] {{ }} * ? \\` in its name.",
    "Move the project to a folder without such characters.",
)
CLEAN_UP_FILE_CHANGED = Entry(
    "{file} was written again after the source `{name}` had read it; it is not read twice, and stays.",
    "Give new data a new name; move this file away.",
)
CLEAN_UP_FAILED = Entry(
    "A finished file of the source `{name}` can't be {done}: {says} ({file}).",
    "Mend what it names; the run goes on, and after each batch it is tried again.",
)

# What can be wrong with the columns of its rows.

FILES_SCHEMA_NOT_INFERRED = Entry(
    "The schema of source `{name}` can't be inferred: no readable file is there yet ({paths}).",
    "Put a first file there, or write `schema:` instead of `infer_schema: true`.",
)
PARTITION_COLUMN_NOT_FOUND = Entry(
    "The sink `{name}` is partitioned by `{column}`, which its rows do not have.", "Its columns are: {known}."
)
PARTITION_COLUMNS_ONLY = Entry(
    "All columns of the sink `{name}` are partition columns, so its files would be empty.",
    "Leave at least one column out of `partition_by`.",
)
FILES_TEXT_COLUMNS_INVALID = Entry(
    "Text files hold one column of text, and the sink `{name}` gets: {columns}.",
    "Make one column of them, for instance `SELECT to_json(struct(*)) AS value`, or choose another format.",
)
FILES_CSV_TYPE_UNSUPPORTED = Entry(
    "A csv file can't hold the column `{column}` ({type}) of the sink `{name}`.",
    "Turn it into text, for instance `to_json({column}) AS {column}`, or choose another format.",
)
FILES_STORED_SCHEMA_UNREADABLE = Entry(
    "The schema that was inferred at the first start can't be read from {file}.",
    "Write the columns under `schema:` instead of `infer_schema: true`, or restore the file.",
)
# What is told while a run waits for files.

FILES_WAITING = Entry("{name}: waiting for {path}, which can't be opened yet and keeps changing.")
FILES_DEFERRED = Entry("{name}: the run starts without {files}, and looks again between batches.")

ENTRIES = name_entries(globals())
