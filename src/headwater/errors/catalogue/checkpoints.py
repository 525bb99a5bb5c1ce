"""What can be wrong with a checkpoint folder, and with the lock beside it."""

from headwater.errors.problems import Entry

CHECKPOINT_UNREADABLE = Entry(
    "HW-CHECKPOINT-UNREADABLE",
    "The checkpoint file {file} can't be read: {reason}.",
    "Check with `ls -la {file!r}` that it exists and that this user may read it.",
)

METADATA_DAMAGED = Entry(
    "HW-METADATA-DAMAGED",
    "The checkpoint's {file} does not hold the query's id: {reason}.",
    'Restore it from a backup; if the id is known from a log, write one line into it: {{"id":"<the id>"}}.',
)

OFFSETS_DAMAGED = Entry(
    "HW-OFFSETS-DAMAGED",
    "The offset file {file} of batch {batch} is damaged: {reason}.",
    "If the checkpoint has no commits/{batch}, delete it with `rm -f {file!r} {checksum!r}` and the batch is "
    "planned again; otherwise restore the checkpoint from a backup.",
)

COMMIT_DAMAGED = Entry(
    "HW-COMMIT-DAMAGED",
    "The commit file {file} of batch {batch} is damaged: {reason}.",
    "Delete it with `rm -f {file!r} {checksum!r}`; the batch is then run again with the same offsets.",
)

FILE_LOG_DAMAGED = Entry(
    "HW-FILE-LOG-DAMAGED",
    "The log file {file} that lists the files of batch {batch} is damaged: {reason}.",
    "Restore it from a backup; Spark can't start this query without it.",
)

NOT_A_FILE_LOG = Entry(
    "HW-NOT-A-FILE-LOG",
    "{file} does not list files: it belongs to another kind of source.",
    "Read the positions of that source from the checkpoint's offsets instead.",
)

LOG_VERSION = Entry(
    "HW-LOG-VERSION",
    "The checkpoint file {file} has version {version}; this Headwater reads up to v{newest}.",
    "A newer Spark wrote it: take a Headwater that supports that Spark, `pip install --upgrade headwater`.",
)

CHECKPOINT_HELD = Entry(
    "HW-CHECKPOINT-HELD",
    "The checkpoint {checkpoint} is in use by run {run} (process {pid} of {user} on {host}) since {since}.",
    "Wait for its end, or stop it: Ctrl-C or `kill {pid}`. Another `folder:` begins from the start again.",
)

CHECKPOINT_HELD_BY_THIS_PROCESS = Entry(
    "HW-CHECKPOINT-HELD-BY-THIS-PROCESS",
    "The checkpoint {checkpoint} is already in use by run {run} of this process ({pid}) since {since}.",
    "Stop that run first, or give this pipeline another `folder:`.",
)

CHECKPOINT_HELD_ELSEWHERE = Entry(
    "HW-CHECKPOINT-HELD-ELSEWHERE",
    "The checkpoint {checkpoint} is in use by run {run} (process {pid} of {user} on {host}) since {since}; "
    "its last sign of life was at {seen}.",
    "Stop that run on {host} with `kill {pid}`, or, if it is gone, start again after {free_at}.",
    retry=True,
)

CHECKPOINT_BUSY = Entry(
    "HW-CHECKPOINT-BUSY",
    "Another run has been starting on the checkpoint {checkpoint} for more than {seconds} seconds.",
    "Try again; if it stays, `fuser {guard!r}` names the process that holds the file.",
    retry=True,
)

LOCK_TAKEN = Entry(
    "HW-LOCK-TAKEN",
    "The checkpoint {checkpoint} now belongs to run {run} (process {pid} of {user} on {host}) since {since}.",
    "This run was silent for too long and has to end; to start it again, stop the other first: `kill {pid}`.",
)

LOCK_REMOVED = Entry(
    "HW-LOCK-REMOVED",
    "The lock {file} of this run was removed or overwritten, so another run may use the checkpoint.",
    "Start the run again, and leave that file in place while it runs.",
)

LOCK_VERSION = Entry(
    "HW-LOCK-VERSION",
    "The lock {file} has version {version}; this Headwater knows version {known}.",
    "Use the Headwater that wrote it; if no run is alive on this checkpoint, `rm {file!r}`.",
)

LOCK_UNUSABLE = Entry(
    "HW-LOCK-UNUSABLE",
    "The lock {file} can't be read or written: {reason}.",
    "Check that the disk has space and that this user may write there: `df {folder!r}; ls -ld {folder!r}`.",
    retry=True,
)

JVM_REMAINS = Entry(
    "HW-JVM-REMAINS",
    "The run {run} has died, but its Spark process {pid} is still alive and may still write the checkpoint "
    "{checkpoint}.",
    "End it with `kill -9 {pid}`, then start again.",
    retry=True,
)
ALIGNMENT_FAILED = Entry(
    "HW-ALIGNMENT-FAILED",
    "The offsets in {folder} could not be made to fit this start: {reason}.",
    "Mend what is said, and start again: the next start ends the work. Nothing is lost.",
    retry=True,
)
FIRST_BATCH_OPEN = Entry(
    "HW-FIRST-BATCH-OPEN",
    "The checkpoint {checkpoint} holds batch {batch}, which is not committed, and none before it: under a "
    "continuous trigger the query would forget where it began, and could pass over rows.",
    "Start it once with the trigger from before until a batch is committed, and change the trigger then; or "
    "begin anew: remove {checkpoint} while the pipeline does not run.",
)
INPUTS_DAMAGED = Entry(
    "HW-INPUTS-DAMAGED",
    "The file {file}, which names the sources of a checkpoint, is damaged: {reason}.",
    "Delete it with `rm -f {file!r}` and start again: the sources of the last start are taken then, and if "
    "they don't fit the checkpoint, nothing is changed.",
)
SOURCES_NOT_ADDED = Entry(
    "HW-SOURCES-NOT-ADDED",
    "The checkpoint {folder} can't be made to know of rows that are fed again: {reason}.",
    "Mend what is said, and start again: what was begun is ended then, and the old checkpoint is kept.",
)
