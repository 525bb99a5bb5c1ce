"""Problems of `headwater prove`."""

from headwater.errors.problems import Entry

PROVE_SOURCE_UNREPLAYABLE = Entry(
    "Source `{source}` ({connector}) is not replayable, so no sink that reads it can be exactly-once.",
    "Prove the pipeline with a replayable source, such as files or Kafka.",
)
PROVE_INPUT_UNBOUNDED = Entry(
    "Source `{source}` ({connector}) generates rows without an end.",
    "Prove the pipeline with a source that has existing data, such as files or Kafka.",
)
PROVE_INPUT_UNKNOWN = Entry(
    "`--input`: source `{source}` not found.",
    "Use one of the sources of the pipeline: {known}.",
)
PROVE_INPUT_INVALID = Entry(
    "Invalid `--input {text}`. Expected SOURCE=PATH, and the path must exist.",
    "Write for example `--input orders=sample/`.",
)
PROVE_INPUT_UNSUPPORTED = Entry(
    "`--input`: source `{source}` ({connector}) cannot read given files.",
    "Omit `--input {source}=…`: `prove` reads the current data of the source.",
)
PROVE_INPUT_EMPTY = Entry(
    "The input of pipeline `{pipeline}` has no rows, so no batch can be killed.",
    "Add data to the sources, or pass files with `--input SOURCE=PATH`.",
)
PROVE_NO_SINKS = Entry(
    "Pipeline `{pipeline}` has no sink that can be proven: {reasons}.",
    "Write to files or a database, or add `read_back` and `scratch: true` to a `foreach_batch` sink.",
)
PROVE_POINT_UNKNOWN = Entry(
    "`--point`: `{point}` not found.",
    "{hint}",
)
PROVE_POINTS_UNSUPPORTED = Entry(
    "No sink of pipeline `{pipeline}` supports these points: {points}.",
    "Omit `--point`, or use a point that its sinks support, such as `--point before-spark-commit`.",
)
PROVE_RUN_FAILED = Entry(
    "The pipeline failed without a kill: {says}.",
    "Correct the pipeline first. To run it by hand with `headwater run {file} --until-idle`, set HEADWATER_SCRATCH "
    "to an empty directory if a sink has `scratch: true`.",
)
PROVE_READ_FAILED = Entry(
    "Sink `{sink}`: the rows of its scratch copy could not be read: {says}.",
    "Check `read_back` of the sink, or the database. With `--keep`, the scratch copies stay.",
)
PROVE_SCRATCH_LEFT = Entry(
    "Sink `{sink}`: could not remove its scratch copy, {place}: {says}.",
    "Remove it when its store is available again. No run uses it.",
)
PROVE_TIMEOUT = Entry(
    "The proof did not complete within {timeout} ({kills} of {planned} kills).",
    "Set a longer `--timeout` or fewer `--kills`. With `--input`, you can pass less data.",
)
PROVE_OUTPUT_UNWRITABLE = Entry(
    "Could not write the certificate to {file}: {reason}.",
    "Set `--output` to a file in an existing directory that you can write to.",
)
