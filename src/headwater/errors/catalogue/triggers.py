"""What keeps a query from running under its trigger, and what is not as meant there."""

from headwater.errors.problems import Entry

TRIGGER_SINK = Entry(
    "HW-TRIGGER-SINK",
    "The sink `{sink}` can't take rows under `{trigger}`: {connector} writes whole batches.",
    "{hint}",
)
TRIGGER_SOURCE = Entry(
    "HW-TRIGGER-SOURCE",
    "The source `{name}` can't be read under `{trigger}`: {connector} gives its rows in batches.",
    "{hint}",
)
NOT_ROW_BY_ROW = Entry(
    "HW-NOT-ROW-BY-ROW",
    "`{step}` can't run under `{trigger}`, where a query may only choose rows and compute columns, each row "
    "by itself.",
    "{hint}",
)
NO_CURRENT_TIME = Entry(
    "HW-NO-CURRENT-TIME",
    "`{call}` can't run under `{trigger}`: Spark knows one current time for each batch, and there is none.",
    "Use a time that the rows bring along, such as `timestamp` of the source; or a trigger with batches, "
    "such as `every 1 second`.",
)
CONTINUOUS_REFUSED = Entry(
    "HW-CONTINUOUS-REFUSED",
    "Spark can't run the query of `{sink}` under `{trigger}`: {says}.",
    "Choose rows and compute columns only; or use a trigger with batches, such as `every 1 second`.",
)
OPTION_IDLE = Entry(
    "HW-OPTION-IDLE",
    "`{option}` of the source `{name}` does nothing under `{trigger}`.",
    "Leave `{option}` out; or use a trigger with batches, such as `every 1 second`.",
)
TOO_FEW_CORES = Entry(
    "HW-TOO-FEW-CORES",
    "The query of `{sink}` needs {slots} cores at once under `{trigger}`, one for each partition of "
    "{names}, and there are {cores}: it would wait for ever and give nothing.",
    "Run it with {slots} cores or more, on one machine `--master 'local[{slots}]'`; or have {names} make "
    "at most {cores} partitions in all.",
)
CORES_SHARED = Entry(
    "HW-CORES-SHARED",
    "The queries of {sinks} keep {slots} cores busy for as long as they run, and the pipeline needs "
    "{needed}: there are {cores}, so {starved} would wait for ever.",
    "Run it with {needed} cores or more, on one machine `--master 'local[{needed}]'`; or have the sources "
    "make fewer partitions; or use triggers with batches, such as `every 1 second`.",
)
REAL_TIME_MODE = Entry(
    "HW-REAL-TIME-MODE",
    "The sink `{sink}` is in {mode} mode, and `{trigger}` can only be in update mode.",
    'Use update mode: `mode: update` in the file, `outputMode("update")` in PySpark.',
)
REAL_TIME_INTERVAL = Entry(
    "HW-REAL-TIME-INTERVAL",
    "`{trigger}` is too short: {least} is the least that Spark takes.",
    "Write `real time 5 minutes`: rows come out at once all the same, the interval only says how often it "
    "is noted how far the query has read.",
)
REAL_TIME_STEP = Entry(
    "HW-REAL-TIME-STEP",
    "`{step}` can't run under `{trigger}` in Spark {version}: {why}.",
    "{hint}",
)
TRIGGER_SWITCHED = Entry(
    "HW-TRIGGER-SWITCHED",
    "The checkpoint of `{sink}` was written under `{before}` and does not fit `{trigger}`: how far `{name}` "
    "was read is noted in two ways, and `{connector}` can't go on from one to the other.",
    "Go back to `trigger: {before}`; or begin anew: remove {checkpoint} while the pipeline does not run.",
)
PARTITIONS_CHANGED = Entry(
    "HW-PARTITIONS-CHANGED",
    "The checkpoint of `{sink}` was written with {before} partitions of `{name}`, and now there would be "
    "{now}: under `{trigger}` that number can't change.",
    "Have `{name}` make {before} partitions again (`partitions: {before}`); or begin anew: remove "
    "{checkpoint} while the pipeline does not run.",
)
NOTHING_YET = Entry(
    "HW-NOTHING-YET",
    "The rows of `{name}` are made while a query runs, and `{trigger}` reads only what is there at the "
    "start: the first run gives none.",
    "Use a trigger that goes on, such as `every 1 second`, and stop the run when you have seen enough.",
)
LIMIT_NOT_KEPT = Entry(
    "HW-LIMIT-NOT-KEPT",
    "`{option}` of the source `{name}` does nothing under `once`, which reads everything in one batch.",
    "Write `available now`, which reads the same in batches of that size and ends, too.",
)
ROWS_HELD_BACK = Entry(
    "HW-ROWS-HELD-BACK",
    "`{option}` of the source `{name}` waits for more rows, and `{trigger}` reads what is there and ends: it "
    "would not look at the option, or leave the last rows unread.",
    "Leave `{option}` out; or use a trigger that goes on, such as `every 1 minute`.",
)
JARS_TOO_LATE = Entry(
    "HW-JARS-TOO-LATE",
    "The query of `{sink}` can't run under `{trigger}` in this process: Spark ran already when the jars of "
    "the connector were added, and then no epoch is ever committed.",
    "Let Headwater start Spark, as `headwater run` does; or start it with `spark.jars` set to {jars}.",
)
NO_REAL_TIME = Entry(
    "HW-NO-REAL-TIME",
    "Spark {version} has no real-time trigger.",
    "Use Spark 4.1 or newer; or another trigger, such as `every 1 second`.",
)
NEVER_IDLE = Entry(
    "HW-NEVER-IDLE",
    "`--until-idle` and `wait_idle()` wait for the end of what the sources hold, and the query of `{sink}` "
    "under `{trigger}` never comes to one.",
    "Leave that out; or use a trigger with batches, such as `every 1 second`.",
)
