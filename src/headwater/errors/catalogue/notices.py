"""Notices of a run: nothing failed, and no action is needed."""

from headwater.errors.problems import Entry

LOCK_TAKEN_OVER = Entry("The previous run ({owner}) died without releasing its lock. Taking over.")
JAR_DOWNLOADED = Entry("Downloaded {jar} to {directory}.")
BROKER_JARS_DOWNLOADING = Entry("Downloading the broker's jars ({lacking} of {all}) to {folder} …")
EXECUTORS_CHECKING = Entry(
    "Checking that the executors of {master} share the pipeline's local paths: waiting for answers, {count} "
    "registered so far.",
)
START_STOPPED = Entry("Received {signal}: stopped before any query started.")
RUN_STOPPING = Entry(
    "Received {signal}: finishing the current batches. Press Ctrl-C again to exit immediately."
)
TIME_LIMIT_REACHED = Entry("Reached the time limit of {limit}.")
STOPPED_BY_FAILURE = Entry(
    "Stopping query `{sink}` because another query failed (`on_failure: stop` or `--fail-fast`)."
)
ALL_DATA_READ = Entry("No more data to read.")
METRICS_SERVED = Entry("Metrics are at {url}.")
INPUT_UNREAD = Entry("Some files could not be read; stopping without them.")
QUERY_RESTART_FAILED = Entry("Could not restart query `{sink}`: {says}.")
MEMORY_TABLE_EMPTY = Entry(
    "{sink}: memory tables do not survive a restart. Discarded {batches}; re-reading the sources from the "
    "beginning.",
)
TRIGGER_CONVERTED = Entry("{sink}: converted the checkpoint to {following}. The old files are in {backup}.")
ROWS_REPLAYED = Entry("{sink}: replaying rows of {sources}. The previous checkpoint is in {backup}.")
BATCH_ROWS_BAD = Entry("{source}: bad rows: {bad:,} of {rows:,}{action}.")
BATCH_ROWS_VIOLATING = Entry("{table}: rows that failed `{expectation}`: {failed:,} of {rows:,}{action}.")
BATCH_ROWS_PARTLY_COUNTED = Entry(
    "{name}: these counts cover only the rows that sink `{sink}` requested, which may not be all."
)
