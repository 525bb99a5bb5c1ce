"""Where `latest` was at a first start, or `earliest`, kept until every query of the source has begun.

Queries start one after another, and a crash may come between two of them; and a continuous query writes down
nothing before its first epoch. Without the note those that begin later would begin elsewhere, and pass over
what was sent meanwhile.

    .headwater/kafka/starts/<source>.json

    {"version": 1, "start": "latest", "offsets": {"clicks": {"0": 7}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from headwater.connectors.context import Context
from headwater.connectors.kafka.broker import Partition
from headwater.errors import PipelineError
from headwater.errors.catalogue import kafka

_VERSION = 1


def noted_start(context: Context, start: str) -> dict[Partition, int]:
    """What was noted for the same `start`; nothing where every query has begun since."""
    file = note_of(context)
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["version"] != _VERSION:
            raise ValueError(f"it has version {record['version']}, and {_VERSION} is known")
        offsets = record["offsets"].items() if record["start"] == start else ()
        return {(topic, int(part)): int(offset) for topic, found in offsets for part, offset in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        says = f"{type(error).__name__}: {error}".rstrip(".")
        raise PipelineError(
            kafka.KAFKA_START_UNREADABLE.at(context.at("start"), file=str(file), name=context.name, says=says)
        ) from error


def note_start(context: Context, start: str, offsets: Mapping[Partition, int]) -> None:
    """Leave a note for the start of the run, which writes it before the first query starts."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, {})[str(partition)] = offset
    record = {"version": _VERSION, "start": start, "offsets": by_topic}
    context.keep(note_of(context), json.dumps(record) + "\n")


def note_of(context: Context) -> Path:
    """The file of the note."""
    return context.folder / "kafka" / "starts" / f"{context.name}.json"
