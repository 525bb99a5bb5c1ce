"""Why the executors of a cluster cannot use local paths."""

from headwater.errors.problems import Entry

PATH_NOT_SHARED = Entry(
    "HW-PATH-NOT-SHARED",
    "{use} {path}, a local path that not all executors share with the driver: {hosts}.",
    "Mount a shared file system at the same path on the driver and on every worker, and set {key} to a path "
    "on it; or run on one machine with `--master 'local[*]'`.",
)
PATH_NOT_WRITABLE = Entry(
    "HW-PATH-NOT-WRITABLE",
    "{use} {path}, where not all executors can create files: {hosts}.",
    "Grant write permission on this directory to the user that runs the executors; or set {key} to a "
    "directory that the driver and every executor can write.",
)
NO_EXECUTORS = Entry(
    "HW-NO-EXECUTORS",
    "Headwater could not check whether executors share the local path {path}: {master} provided no executor "
    "within {seconds} s.",
    "Provide a worker with enough free cores and memory for one executor, then run again. If the cluster "
    "needs longer, raise `spark.scheduler.maxRegisteredResourcesWaitingTime`; Headwater then waits longer, "
    "too.",
    retry=True,
)
EXECUTORS_NOT_ASKED = Entry(
    "HW-EXECUTORS-NOT-ASKED",
    "Headwater could not check whether the executors of {master} share the local path {path}: {reason}.",
    "Read the log of the executors, fix the cause and run again: they need the driver's Python version, "
    "{python} (set PYSPARK_PYTHON to its path on the workers), and mounts that respond.",
    retry=True,
)
