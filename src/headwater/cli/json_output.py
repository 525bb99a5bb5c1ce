"""JSON on stdout. It imports little, because every command that only asks a run waits for its imports."""

from __future__ import annotations

import json
import sys

from headwater.values import scrub_within


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(scrub_within(value), indent=2) + "\n")


def print_json_line(value: object) -> None:
    """One JSON value on one line of stdout, flushed immediately."""
    sys.stdout.write(json_line(value))
    sys.stdout.flush()


def json_line(value: object) -> str:
    """A value as a line of JSON."""
    return json.dumps(scrub_within(value)) + "\n"
