"""What a run tells besides failures; nothing has to be done."""

from headwater.errors.problems import Entry

RUN_TAKEN_OVER = Entry("The run before this one is dead ({owner}); its place was taken.")
JAR_FETCHED = Entry("Fetched {jar} into {folder}.")
BROKER_JARS = Entry("Fetching the broker's jars ({lacking} of {all}) into {folder} …")
EXECUTORS_ASKED = Entry(
    "Checking that the executors of {master} share the pipeline's local paths: waiting for answers, "
    "{count} registered so far."
)
START_STOPPED = Entry("{signal}: no query had started.")
RUN_STOPPING = Entry("{signal}: the running batches are finished first.")
TIME_OVER = Entry("{limit} are over.")
STOPPED_BY_FAILURE = Entry("The query `{sink}` was stopped because another one failed (`--fail-fast`).")
NOTHING_LEFT = Entry("Nothing is left to read.")
INPUT_LEFT_OUT = Entry("Some input can't be taken in: the run ends without it.")
QUERY_NOT_RESTARTED = Entry("The query `{sink}` could not be started again ({says}).")
MEMORY_TABLE_EMPTY = Entry(
    "{sink}: a table in memory begins empty; the {batches} of the run before went with its process, "
    "and the sources are read from their start again"
)
TRIGGER_CONVERTED = Entry(
    "{sink}: its checkpoint was made to go on with {following}; the old files are in {backup}"
)
ROWS_FED_AGAIN = Entry(
    "{sink}: rows of {sources} are fed again; the checkpoint from before is kept as {backup}"
)
BATCH_ROWS_BAD = Entry("{source}: {bad} of {rows} rows can't be read{becomes}")
BATCH_ROWS_FAILED = Entry("{table}: {failed} of {rows} rows fail {expectation}{becomes}")
BATCH_ROWS_PARTLY_COUNTED = Entry(
    "{name}: counted are the rows that the sink `{sink}` asked for, which may not be all"
)
