"""Errors and notices of the files connector."""

from headwater.errors import Entry, name_entries

# Keys about bad rows and bad files that a source does not support, and files that could not be read.

FILES_BAD_ROWS_UNSUPPORTED = Entry("Source `{name}` does not support `{key}`: {why}.", "{advice}.")
RUN_DIR_PATH_INVALID = Entry(
    "Source `{name}`: Spark ignores the list of readable files in {folder}, because a directory in that path "
    "has one of `[ ] {{ }} * ? \\` in its name.",
    "Set `run_dir` to a path without these characters.",
)
FILES_VALIDATION_FAILED = Entry(
    "Source `{name}`: new files could not be checked before reading: {says}.",
    "Fix the cause. A run continues without new files of this source and retries; with `--until-idle` it "
    "gives up after 30 seconds. A start fails immediately.",
)
FILES_UNREADABLE = Entry(
    "Source `{name}`: some files were still unreadable after 30 seconds: {says}.",
    "Fix or move these files, then restart. Everything read so far is committed. Without `--until-idle`, the "
    "run keeps retrying.",
)
FILES_BATCH_REWRITTEN = Entry(
    "Query `{sink}`: a planned batch contains files of source `{name}` that can no longer be read: {files}. "
    "`bad_rows` now applies to them.",
    "To inspect the previous checkpoint files, see {backup}.",
)
FILES_BATCH_PENDING = Entry(
    "Query `{sink}`: a planned batch contains an unreadable file of source `{name}` that the previous "
    "`bad_rows` setting drops or quarantines. With `bad_rows: {bad_rows}`, the batch cannot be read.",
    "Restore the previous `bad_rows`, commit the batch with `headwater run FILE --until-idle`, then change "
    "`bad_rows`.",
)


# The output of a files sink in a group.

FILES_GROUP_CONFLICT = Entry(
    "Sink `{sink}`: {place} contains the output of a sink {there}, and this sink is {here}. Readers would miss "
    "the rows of one of them.",
    "Set a new `path`, or move the existing output out of the directory.",
)
FILES_GROUP_FOREIGN = Entry(
    "Sink `{sink}`: {place} contains batches of another query (ID {owner}). The batches of this query have the "
    "same numbers and would replace them.",
    "Restore the checkpoint of that query. Or set a new `path`, or move the existing output out of the directory.",
)
FILES_GROUP_SUPERSEDED = Entry(
    "Sink `{sink}`: a newer run of the query writes {place}, so this run has not changed it.",
    "Check `headwater status` for the newer run. To take over again, stop it and restart this one.",
)
FILES_BATCH_COLUMN = Entry(
    "Sink `{sink}`: the rows have a column `{column}`, but in a group the directories `batch=N` add a column of "
    "this name.",
    "Rename the column in the table, for example `{column} AS {column}_id`.",
)

# The output of a files sink: its manifest and its compaction.

MANIFEST_WRITE_FAILED = Entry(
    "Sink `{sink}`: could not write the manifest: {says}.",
    "Fix the cause. Headwater retries after the next batch; until then, the manifest lists an earlier batch.",
    retryable=True,
)
COMPACTION_FAILED = Entry(
    "Sink `{sink}`: could not compact small files: {says}.",
    "Fix the cause and restart the run to retry. The small files stay as they are; no data is lost.",
    retryable=True,
)


# The files that a source reads: partition directories and clean-up.

PARTITION_KEYS_MIXED = Entry(
    "Source `{name}`: files are in partition directories with different keys: {one} and {other}.",
    "Move one of them to a different directory, or declare one source per set of keys.",
)
PARTITION_KEY_MISSING = Entry(
    "Source `{name}`: partition key `{key}` is not in the schema (found in {file}).",
    "Add `{key}` with its type to `schema`, or move the directory. To ignore the key, set "
    "`options: {{recursiveFileLookup: true}}`.",
)
PARTITION_KEY_TYPE = Entry(
    "Source `{name}`: partition column `{key}` has type {type}, which a directory name cannot represent.",
    "Use a simple type for `{key}`, such as string, int or date.",
)
PARTITION_DIR_UNEXPECTED = Entry(
    "Query `{sink}` failed: source `{source}` contains a file in unexpected partition directories: {path}.",
    "Move the file to the right directory and restart, or declare a separate source for it.",
)
PARTITION_VALUE_INVALID = Entry(
    "Query `{sink}` failed: source `{source}` contains a partition directory whose value does not match its "
    "column type: {path}.",
    "Rename the directory or change the type in `schema`, then restart.",
)
FILES_NAME_UNSUPPORTED = Entry(
    "Query `{sink}` failed: source `{source}` contains a file with one of `[ ] {{ }} * ? \\` in its path. "
    "With the option `basePath`, Spark would duplicate the rows of the batch: {path}.",
    "Remove the option `basePath` from the source and restart.",
)
FILES_PATH_IS_GLOB = Entry(
    "Source `{name}`: {path} exists, but `path` is a glob that does not match it.",
    "Write `{escaped}` to read this directory or file, or rename it.",
)
FILES_PATH_INVALID = Entry(
    "Source `{name}`: Spark ignores the file list that a files sink maintains in {path}, because a directory "
    "in that path has one of `[ ] {{ }} * ? \\` in its name.",
    "Move the project to a path without these characters.",
)
CLEAN_UP_FILE_CHANGED = Entry(
    "Source `{name}`: {file} changed after it was read. Spark does not read it again, and clean-up skips it.",
    "Write new data to a new file name, and move this file out of the directory.",
)
CLEAN_UP_FAILED = Entry(
    "Source `{name}`: a processed file could not be {done}: {says} ({file}).",
    "Fix the cause. The run continues and retries after each batch.",
)

# The columns of a source or sink.

FILES_SCHEMA_NOT_INFERRED = Entry(
    "Source `{name}`: could not infer the schema, because no readable file exists yet ({paths}).",
    "Add a first file, or declare `schema` instead of `infer_schema: true`.",
)
PARTITION_COLUMN_NOT_FOUND = Entry(
    "Sink `{name}`: `partition_by` column `{column}` not found.", "Use one of its columns: {known}."
)
PARTITION_COLUMNS_ONLY = Entry(
    "Sink `{name}`: all columns are partition columns, so its files would be empty.",
    "Remove at least one column from `partition_by`.",
)
FILES_TEXT_COLUMNS_INVALID = Entry(
    "Sink `{name}`: text files require exactly one string column, got {columns}.",
    "Combine the columns, for example with `SELECT to_json(struct(*)) AS value`, or use a different format.",
)
FILES_CSV_TYPE_UNSUPPORTED = Entry(
    "Sink `{name}`: CSV does not support the type of column `{column}` ({type}).",
    "Convert it to a string, for example with `to_json({column}) AS {column}`, or use a different format.",
)
FILES_STORED_SCHEMA_UNREADABLE = Entry(
    "Could not read the inferred schema of the source from {file}.",
    "Restore the file, or declare `schema` instead of `infer_schema: true`.",
)

# Notices while a run waits for files.

FILES_WAITING = Entry("{name}: waiting for {path}, which is not readable yet and keeps changing.")
FILES_DEFERRED = Entry("{name}: starting without {files}; Headwater retries between batches.")

ENTRIES = name_entries(globals())
