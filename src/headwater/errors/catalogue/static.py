"""What can be wrong with static sources, and what can happen to them."""

from headwater.errors.problems import Entry

STATIC_KEY = Entry(
    "HW-STATIC-KEY",
    "The key `{key}` does nothing for the source `{name}`, which is a stream.",
    "Take it out, or write `static: true` to have the source read as a finished table.",
)
STREAM_KEY = Entry(
    "HW-STREAM-KEY",
    "The key `{key}` does nothing for the source `{name}`, which is static: it is read whole.",
    "Take it out, or take out `static: true` to have the source read as a stream.",
)
CACHE_EVERY_BATCH = Entry(
    "HW-CACHE-EVERY-BATCH",
    "The source `{name}` can't have `cache: true` with `refresh: every batch`: the kept rows would never be "
    "used a second time.",
    "Take `cache` out, or refresh less often, for instance `refresh: every 10 minutes`.",
)
NO_REFRESH = Entry(
    "HW-NO-REFRESH",
    "The source `{name}` can't be refreshed: with `{connector}` Spark alone decides when it looks again.",
    "Take `refresh` out.",
)
STATIC_UNREADABLE = Entry(
    "HW-STATIC-UNREADABLE",
    "The static source `{name}` can't be read: {says}.",
    "Put it right and start again: a batch that needed it was not written, and runs then.",
)
STATIC_FILE_GONE = Entry(
    "HW-STATIC-FILE-GONE",
    "A file of a static source was removed or written over while the query `{sink}` read it.",
    "Its batch runs again with the files that are there now.",
)
STATIC_WRITTEN_OVER = Entry(
    "HW-STATIC-WRITTEN-OVER",
    "A file of the static source `{name}` was written over in its place: {file}.",
    "Batches read the files that are there now. Write new files aside and rename them into place, or say "
    "with `refresh:` when changes are to be seen.",
)
