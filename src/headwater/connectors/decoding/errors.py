"""What can go wrong when bytes become columns."""

from headwater.errors import Entry, name_entries

REGISTRY_UNREACHABLE = Entry(
    "The schema registry of the source `{name}` can't be used ({place}): {reason}.",
    "See that it runs at this address, is reached from here and takes the user and password; then start "
    "again.",
    retry=True,
)
REGISTRY_GONE = Entry(
    "The query `{sink}` needs a schema that it has not read yet, and the registry {place} gives none: "
    "{reason}.",
    "No row was set aside for that: start again when the registry answers, and the batch is repeated.",
    retry=True,
)
REGISTRY_NO_FOLDER = Entry(
    "The schemas of the source `{name}` should be in {place}, and there is no such folder.",
    "Make it, and put each schema into a file `<id>.avsc`.",
)
AVRO_PACKAGE = Entry(
    "The source `{name}` reads Avro, for which a Python package is missing.",
    "Install it here and where the executors run: pip install 'headwater[avro]'.",
)


ENTRIES = name_entries(globals())
