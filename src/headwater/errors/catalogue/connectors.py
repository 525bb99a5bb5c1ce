"""What can go wrong with connectors."""

from headwater.errors.problems import Entry

CONNECTOR_NOT_FOUND = Entry(
    "There is no {side} connector `{name}`.", "{hint} Installed {side} connectors: {known}."
)
CONNECTOR_LOAD_FAILED = Entry(
    "The installed connector `{name}` ({module}) can't be loaded: {error}.",
    "Repair or uninstall the package that brings it.",
)
CONNECTOR_FILE_OUTSIDE_RUN_DIR = Entry(
    "The connector `{connector}` of `{name}` wants to keep {file}, outside of the run folder {folder}.",
    "Report it to the authors of the connector: what it keeps belongs below `context.directory.path`.",
)
CONNECTOR_NAME_CONFLICT = Entry(
    "Two installed packages bring a connector `{name}` (one is {other}).", "Uninstall one of them."
)
SINK_LOG_PATH_INVALID = Entry(
    "The log of the folder {folder} names a file outside of it: {file}.",
    "Move the folder back (Spark's log contains absolute paths), or give the sink a new name and a new "
    "output path; it then starts from scratch.",
)


# What can be wrong with static sources, and what can happen to them.

OPTION_NEEDS_STATIC = Entry(
    "The key `{key}` does nothing for the source `{name}`, which is a stream.",
    "Take it out, or write `static: true` to have the source read as a finished table.",
)
OPTION_NEEDS_STREAM = Entry(
    "The key `{key}` does nothing for the source `{name}`, which is static: it is read whole.",
    "Take it out, or take out `static: true` to have the source read as a stream.",
)
CACHE_REFRESH_CONFLICT = Entry(
    "The source `{name}` can't have `cache: true` with `refresh: every batch`: the kept rows would never be "
    "used a second time.",
    "Take `cache` out, or refresh less often, for instance `refresh: every 10 minutes`.",
)
REFRESH_UNSUPPORTED = Entry(
    "The source `{name}` can't be refreshed: with `{connector}` Spark alone decides when it looks again.",
    "Take `refresh` out.",
)
STATIC_UNREADABLE = Entry(
    "The static source `{name}` can't be read: {says}.",
    "Put it right and start again: a batch that needed it was not written, and runs then.",
)
STATIC_FILE_DELETED = Entry(
    "A file of a static source was removed or written over while the query `{sink}` read it.",
    "Its batch runs again with the files that are there now.",
)
STATIC_FILE_OVERWRITTEN = Entry(
    "A file of the static source `{name}` was written over in its place: {file}.",
    "Batches read the files that are there now. Write new files aside and rename them into place, or say "
    "with `refresh:` when changes are to be seen.",
)


# Tables in the memory of a run, and queries over them.

RUN_SQL_INVALID = Entry(
    "Spark refuses the query: {says}.", "Mend the SQL; the tables in memory are: {tables}."
)
RUN_SQL_STREAM_UNSUPPORTED = Entry(
    "The query reads a stream, which has no end.",
    "Query a table in memory: {tables}. To have another, add a `memory` sink that reads the stream's table.",
)
SINK_CONNECTOR_CHANGED = Entry(
    "The checkpoint of `{sink}` was made by a `{old}` sink, and now it is `{new}`: {says}.",
    "Give the sink another name, or start from the beginning with a new run folder (`folder:`); either with "
    "another output folder.",
)
CHECKPOINT_REMOVE_FAILED = Entry(
    "The sink `{sink}` begins anew at each start, but its old checkpoint {path} can't be removed: {reason}.",
    "See to it that this user may remove it: `rm -r {path}`.",
)
