"""How much a query reads, how often, and how many rows come of it."""

from headwater.errors.problems import Entry

READ_TWICE = Entry(
    "HW-READ-TWICE",
    "The query of the sink `{sink}` names the source `{name}` {count} times, and Spark reads it as often: "
    "each row is fetched, parsed and counted {count} times.",
    "Good to know, no mistake. Branches of a UNION often do in one pass with `CASE` or `explode`; a join of "
    "a stream with itself may be an aggregation, or a function with state.",
)
FULL_FOLDER = Entry(
    "HW-FULL-FOLDER",
    "The source `{name}` has {waiting} waiting and no limit, so the first batch of {sinks} reads all of it "
    "at once.",
    "If that is too much for memory, or for one batch to be lost in a crash, write {keys} beside the source.",
)
DIRECTORIES_IGNORED = Entry(
    "HW-DIRECTORIES-IGNORED",
    "Source `{name}` ignores {count}: {directories}.",
    "To read their files, set a glob (`path: {glob}`) or `options: {{recursiveFileLookup: true}}` before the "
    "first start; for a query that has started they count as read. Otherwise move the directories elsewhere.",
)
LIMIT_TOO_LOW = Entry(
    "HW-LIMIT-TOO-LOW",
    "The sink `{sink}` needs {time} to read what already waits at the source `{name}` ({waiting}): with "
    "`{key}` that is {batches} batches, one {trigger}.",
    "To catch up within an hour, raise `{key}` to {enough}; or catch up first with `trigger: available now`, "
    "which does not wait between batches.",
)
CROSS_JOIN = Entry(
    "HW-CROSS-JOIN",
    "This {join} has no condition: every row of the stream meets every row of {static}, so that one row "
    "becomes as many as there are.",
    "Say which rows belong together, `JOIN … ON a.id = b.id`; or accept it if the static side has one row "
    "only, or few.",
)
RANGE_JOIN = Entry(
    "HW-RANGE-JOIN",
    "This {join} compares nothing by equality (`{condition}`): every row of the stream is compared with all "
    "of {static}, and comes out once for each that fits.",
    "If ranges may overlap, make sure that this is meant; an additional `a.key = b.key` makes it fast.",
)
STATE_PARTITIONS = Entry(
    "HW-STATE-PARTITIONS",
    "The state of the sink `{sink}` is divided into {partitions} partitions for {cores} core(s): every batch "
    "runs {partitions} tasks for each step that keeps state, most of them for a few rows or none (200 on two "
    "cores make a batch of 1,000 rows take ten seconds instead of a fifth of one).",
    "Set `spark.sql.shuffle.partitions` to {cores}, or up to twice that, before the first start; it can't be "
    "changed later. A declared pipeline that leaves it out gets one partition for each core.",
)
SECRET_IN_CLEAR = Entry(
    "HW-SECRET-IN-CLEAR",
    "The value of `{key}` in {where} is a secret in clear: it is stored, shown and logged like any other "
    "text.",
    "Write it under `options:` as `${{secret:NAME}}` (in Python `hw.secret('NAME')`) and set the environment "
    "variable NAME, or NAME_FILE for a file that holds it.",
)
SECRET_IN_SETTINGS = Entry(
    "HW-SECRET-IN-SETTINGS",
    "The setting `{key}` of Spark is a secret in clear, and settings are stored, shown and sent to every "
    "executor.",
    "Take it out of the file: let the store's own means bring it (a credential provider, a role of the "
    "machine, `spark-defaults.conf` readable by the user alone).",
)
