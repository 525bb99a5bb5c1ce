"""Tables in the memory of a run, and queries over them."""

from headwater.errors.problems import Entry

TABLE_NOT_QUERIED = Entry(
    "HW-TABLE-NOT-QUERIED",
    "The rows of the sink `{sink}` are kept by the process of the run, and from the command line nobody can "
    "query them.",
    "Start the pipeline in Python and use `run.sql(…)`, or use a `files` or `console` sink.",
)
RUN_SQL_REFUSED = Entry(
    "HW-RUN-SQL-REFUSED",
    "Spark refuses the query: {says}.",
    "Mend the SQL; the tables in memory are: {tables}.",
)
RUN_SQL_STREAM = Entry(
    "HW-RUN-SQL-STREAM",
    "The query reads a stream, which has no end.",
    "Query a table in memory: {tables}. To have another, add a `memory` sink that reads the stream's table.",
)
SINK_KIND_CHANGED = Entry(
    "HW-SINK-KIND-CHANGED",
    "The checkpoint of `{sink}` was made by a `{old}` sink, and now it is `{new}`: {says}.",
    "Give the sink another name, or start from the beginning with a new run folder (`folder:`); either with "
    "another output folder.",
)
CHECKPOINT_NOT_REMOVED = Entry(
    "HW-CHECKPOINT-NOT-REMOVED",
    "The sink `{sink}` begins anew at each start, but its old checkpoint {path} can't be removed: {reason}.",
    "See to it that this user may remove it: `rm -r {path}`.",
)
