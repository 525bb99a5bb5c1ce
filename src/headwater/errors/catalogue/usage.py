"""What can be wrong with a call or a command line."""

from headwater.errors.problems import Entry

TABLE_CALL = Entry(
    "HW-TABLE-CALL",
    "A table made with `sql=` or `python=` needs its name first.",
    'Write `p.table("name", sql="SELECT …")`, or put `@p.table` over a function.',
)
BAD_CONF = Entry(
    "HW-BAD-CONF",
    "`--conf {text}` is not a setting.",
    "Write `--conf key=value`, for instance `--conf spark.sql.shuffle.partitions=4`.",
)
BAD_DURATION = Entry(
    "HW-BAD-DURATION",
    "`{option} {text}` is not a length of time: {says}.",
    "Write for instance `{option} 60s` or `{option} '10 minutes'`.",
)
FOLDER_NOT_EMPTY = Entry(
    "HW-FOLDER-NOT-EMPTY",
    "`{path}` is there already and is not empty.",
    "Name a new folder: `headwater init my_project`.",
)
UNKNOWN_TEMPLATE = Entry(
    "HW-UNKNOWN-TEMPLATE",
    "There is no template `{name}`.",
    "{hint}Write one of these after `--template`: {known}.",
)
UNKNOWN_QUERY = Entry(
    "HW-UNKNOWN-QUERY",
    "This run has no query `{name}`.",
    "{hint} Its queries are: {known}.",
)
APPEND_WITHOUT_BATCH = Entry(
    "HW-APPEND-WITHOUT-BATCH",
    "`--append` says what a batch run may do, and this is none.",
    "Add `--batch`, or leave `--append` out.",
)
INTO_WITHOUT_BATCH = Entry(
    "HW-INTO-WITHOUT-BATCH",
    "`--into` is for batch runs, and `--batch` is not there.",
    "Add `--batch`, or take `--into` out to start the stream.",
)
BATCH_HAS_AN_END = Entry(
    "HW-BATCH-HAS-AN-END",
    "`--until-idle`, `--for`, `--fail-fast` and `--stop-timeout` mean nothing with `--batch`.",
    "Take them out: a batch run ends by itself.",
)
NO_SUCH_CONNECTOR = Entry(
    "HW-NO-SUCH-CONNECTOR",
    "There is no connector `{name}`.",
    "{hint} Installed are: {known}.",
)
ONE_FORM = Entry(
    "HW-ONE-FORM",
    "`{one}` and `{other}` are two forms of the same output.",
    "Leave one of them out.",
)
BAD_RATE = Entry(
    "HW-BAD-RATE",
    "`--rate {text}` is not a rate: {says}.",
    "Write for instance `--rate clicks=1000/s`, `--rate clicks=500/m` or `--rate clicks=20/h`.",
)
UNKNOWN_RATE = Entry(
    "HW-UNKNOWN-RATE",
    "`--rate` names `{name}`, which is no streaming source of this pipeline.",
    "{hint}Its streaming sources are: {known}.",
)
