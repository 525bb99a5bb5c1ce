"""What can go wrong with connectors."""

from headwater.errors.problems import Entry

UNKNOWN_CONNECTOR = Entry(
    "HW-UNKNOWN-CONNECTOR",
    "There is no {side} connector `{name}`.",
    "{hint} Installed {side} connectors: {known}.",
)
CONNECTOR_BROKEN = Entry(
    "HW-CONNECTOR-BROKEN",
    "The installed connector `{name}` ({module}) can't be loaded: {error}.",
    "Repair or uninstall the package that brings it.",
)
CONNECTOR_TWICE = Entry(
    "HW-CONNECTOR-TWICE",
    "Two installed packages bring a connector `{name}` (one is {other}).",
    "Uninstall one of them.",
)
FILES_NOT_INFERRED = Entry(
    "HW-FILES-NOT-INFERRED",
    "The schema of source `{name}` can't be inferred: no readable file is there yet ({paths}).",
    "Put a first file there, or write `schema:` instead of `infer_schema: true`.",
)
