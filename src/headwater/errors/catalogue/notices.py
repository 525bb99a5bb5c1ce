"""What a run tells besides failures; nothing has to be done."""

from headwater.errors.problems import Entry

LOCK_TAKEN_OVER = Entry("The run before this one is dead ({owner}); its place was taken.")
JAR_DOWNLOADED = Entry("Fetched {jar} into {folder}.")
BROKER_JARS_DOWNLOADING = Entry("Fetching the broker's jars ({lacking} of {all}) into {folder} …")
EXECUTORS_CHECKING = Entry(
    "Checking that the executors of {master} share the pipeline's local paths: waiting for answers, "
    "{count} registered so far."
)
START_STOPPED = Entry("{signal}: no query had started.")
RUN_STOPPING = Entry("{signal}: the running batches are finished first.")
TIME_LIMIT_REACHED = Entry("{limit} are over.")
STOPPED_BY_FAILURE = Entry("The query `{sink}` was stopped because another one failed (`--fail-fast`).")
ALL_DATA_READ = Entry("Nothing is left to read.")
INPUT_UNREAD = Entry("Some input can't be taken in: the run ends without it.")
QUERY_RESTART_FAILED = Entry("The query `{sink}` could not be started again ({says}).")
MEMORY_TABLE_EMPTY = Entry(
    "{sink}: a table in memory begins empty; the {batches} of the run before went with its process, "
    "and the sources are read from their start again"
)
TRIGGER_CONVERTED = Entry(
    "{sink}: its checkpoint was made to go on with {following}; the old files are in {backup}"
)
ROWS_REPLAYED = Entry(
    "{sink}: rows of {sources} are fed again; the checkpoint from before is kept as {backup}"
)
BATCH_ROWS_BAD = Entry("{source}: {bad} of {rows} rows can't be read{becomes}")
BATCH_ROWS_VIOLATING = Entry("{table}: {failed} of {rows} rows fail {expectation}{becomes}")
BATCH_ROWS_PARTLY_COUNTED = Entry(
    "{name}: counted are the rows that the sink `{sink}` asked for, which may not be all"
)
