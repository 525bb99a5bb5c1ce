"""Checkpoints and facts as queries leave them, made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.plan import QueryFacts
from headwater.runtime.records import RunRecords

Offsets = list[Any]


def facts_of(sink: str, *inputs: str, verdicts: Mapping[str, str] | None = None) -> QueryFacts:
    return QueryFacts(
        sink=sink, connector="files", mode="append", root="/project", timezone="UTC", sources=(),
        output_schema={}, inputs=inputs, verdicts=verdicts or {},
    )  # fmt: skip


def stopped(
    folder: Path, sink: str, inputs: Mapping[str, Any], *, planned: Offsets | None = None, **facts: Any
) -> None:
    """A query that has committed these offsets, by its sources; with `planned` it failed then."""
    checkpoint = RunRecords(folder).checkpoint(sink)
    _put(checkpoint / "metadata", '{"id":"a"}')
    batches = [list(inputs.values()), *([planned] if planned else [])]
    for number, offsets in enumerate(batches):
        lines = ["-" if each is None else json.dumps(each) for each in offsets]
        _put(checkpoint / f"offsets/{number}", "\n".join(["v1", "{}", *lines]))
    _put(checkpoint / "commits/0", "v1\n{}")
    RunRecords(folder).store_facts(facts_of(sink, *inputs, **facts))


def handed_out(folder: Path, sink: str, source: int, *batches: list[str]) -> None:
    """What a source of files has handed out, batch by batch."""
    for number, paths in enumerate(batches):
        lines = [json.dumps({"path": path, "timestamp": 1, "batchId": number}) for path in paths]
        place = RunRecords(folder).checkpoint(sink) / f"sources/{source}/{number}"
        _put(place, "\n".join(["v1", *lines]))


def _put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
