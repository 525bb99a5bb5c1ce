"""What the tasks of a run are told of its queries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from headwater.checkpoint import Read
from headwater.plan import QueryFacts
from headwater.runtime.records import RunRecords
from headwater.runtime.tasks import read_by_all

COMMITTED = {
    "far": {"s": Read(files=frozenset(["/a", "/b"]))},
    "behind": {"s": Read(files=frozenset(["/a"])), "other": Read(files=frozenset(["/b"]))},
    "new": None,
}


def read(*queries: str, source: str = "s") -> frozenset[str]:
    folder = cast(RunRecords, SimpleNamespace(committed=COMMITTED.get))
    facts = [cast(QueryFacts, SimpleNamespace(sink=each, inputs=("s",))) for each in queries]
    return read_by_all(folder, source, facts)


def test_a_file_is_read_when_every_query_of_its_source_has_committed_it() -> None:
    assert read("far") == {"/a", "/b"}
    assert read("far", "behind") == {"/a"}
    assert read("far", "new") == frozenset()
    assert read("far", source="other") == frozenset()
