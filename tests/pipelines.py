"""Small pipelines for tests: written to a folder, run until nothing is left, read back exactly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headwater.api.batch import run_batch
from headwater.api.results import RunResult
from headwater.api.running import run
from headwater.events import Event, QueryProgress
from headwater.runtime import RunOptions
from headwater.values import Duration

LONGEST = Duration.parse("2 minutes")


def write(folder: Path, text: str, name: str = "pipeline.yml") -> Path:
    """A pipeline file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def feed(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """A file of JSON rows that appears in the folder all at once, as Spark wants it."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder.parent / f".{folder.name}.{name}.part"
    part.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    part.rename(folder / f"{name}.json")


def run_until_idle(file: Path, events: list[Event] | None = None, **options: Any) -> RunResult:
    """Run a pipeline until nothing is left to read."""
    seen = events if events is not None else []
    lines: list[str] = []
    return run(
        file,
        RunOptions(until_idle=True, **options),
        limit=LONGEST,
        emit=seen.append,
        stdout=lines.append,
    )


def run_as_batch(file: Path, into: Path) -> None:
    """Run a pipeline as a batch."""
    run_batch(file, RunOptions(), into=into, stdout=lambda line: None)


def batches(events: list[Event], query: str) -> list[QueryProgress]:
    """The committed batches of one query, in order."""
    return [event for event in events if isinstance(event, QueryProgress) and event.query == query]


def rows_of(
    spark: Any, folder: Path, format: str = "json", schema: str | None = None
) -> Counter[tuple[Any, ...]]:
    """The rows of a folder as Spark reads them, as a multiset."""
    reader = spark.read.format(format)
    frame = (reader.schema(schema) if schema else reader).load(str(folder))
    return Counter(tuple(row) for row in frame.collect())
