"""Keys of a source that say where reading ends, for a stream and for finished data."""

from __future__ import annotations

import pytest

from headwater.checks import Situation
from headwater.checks.declarations import option_ignored_on_stream
from headwater.plan import Graph
from tests.unit.specs import spec_of

PIPELINE = """
    name: clicks
    sources:
      clicks: {connector: kafka, bootstrap_servers: "kafka:9092", topic: clicksKEYS}
    sinks: {out: {reads: clicks, connector: console}}
"""


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("", []),
        (', end: {timestamp: "2026-01-31"}', [("HW-OPTION-IGNORED-ON-STREAM", "note", "end")]),
        (', end: {timestamp: "2026-01-31"}, static: true', []),
    ],
)
def test_a_stream_has_no_end(keys: str, said: list[tuple[str, str, str]]) -> None:
    spec = spec_of(PIPELINE.replace("KEYS", keys))
    found = list(option_ignored_on_stream.findings(Situation(spec, Graph.of(spec))))
    assert [(each.code, each.severity, each.problem.params["key"]) for each in found] == said
