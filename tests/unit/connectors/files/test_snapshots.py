"""Which listing a batch gets."""

from __future__ import annotations

import pytest

from headwater.connectors.files.snapshots import BatchKey, SnapshotPolicy
from headwater.values import Duration, Every, EveryBatch, Never, Refresh


class Folder:
    """What could be listed, and what was."""

    def __init__(self, refresh: Refresh) -> None:
        self.now = 0.0
        self.content = "a"
        self.looks = 0
        self.afresh = 0
        self.dropped: list[str] = []
        self.broken: list[str] = []
        self.listings = SnapshotPolicy(refresh, self.take, self.drop, lambda: self.now, self.holds)

    def holds(self, listing: list[str]) -> bool:
        return listing != self.broken

    def take(self, known: list[str] | None) -> list[str]:
        self.looks += 1
        self.afresh += known is None
        return known if known == [self.content] else [self.content]

    def drop(self, listing: list[str]) -> None:
        self.dropped += listing

    def of(self, query: str, batch: int) -> str:
        listing = self.listings.of(BatchKey(query, str(batch)))
        assert listing is not None
        return listing[0]


def started(refresh: Refresh) -> Folder:
    folder = Folder(refresh)
    assert folder.listings.of(BatchKey("q", "0")) is None
    folder.listings.start()
    return folder


def test_never_keeps_to_the_listing_of_the_start() -> None:
    folder = started(Never())
    folder.content, folder.now = "b", 1e9
    assert [folder.of("q", batch) for batch in (0, 1, 2)] == ["a", "a", "a"]
    assert (folder.looks, folder.dropped) == (1, [])


def test_every_batch_looks_once_for_each_batch_of_each_query() -> None:
    folder = started(EveryBatch())
    folder.content = "b"
    assert folder.of("q", 0) == "b"
    folder.content = "c"
    assert [folder.of("q", 0), folder.of("q", 0)] == ["b", "b"]
    assert folder.of("other", 0) == "c"
    assert folder.of("q", 1) == "c"
    assert folder.looks == 4


def test_an_interval_is_the_greatest_age_of_a_listing_at_the_start_of_a_batch() -> None:
    folder = started(Every(Duration.parse("10 minutes")))
    folder.content, folder.now = "b", 599.0
    assert folder.of("q", 0) == "a"
    folder.now = 600.0
    assert [folder.of("q", 0), folder.of("q", 1)] == ["a", "b"]
    folder.content, folder.now = "c", 1_199.0
    assert folder.of("q", 2) == "b"
    assert folder.looks == 2


def test_a_listing_is_dropped_when_no_batch_uses_it_and_a_newer_one_is_there() -> None:
    folder = started(EveryBatch())
    folder.of("slow", 0)
    for batch, content in enumerate("bcd"):
        folder.content = content
        folder.of("quick", batch)
    assert folder.dropped == ["b", "c"]
    folder.of("slow", 1)
    assert folder.dropped == ["b", "c", "a"]
    folder.listings.close()
    assert folder.dropped == ["b", "c", "a", "d"]


def test_what_has_not_changed_is_the_same_listing() -> None:
    folder = started(EveryBatch())
    first = folder.listings.of(BatchKey("q", "0"))
    assert folder.listings.of(BatchKey("q", "1")) is first
    assert folder.dropped == []


@pytest.mark.parametrize("refresh", [Never(), EveryBatch(), Every(Duration.parse("10 minutes"))])
def test_a_batch_that_runs_again_gets_a_new_listing_and_others_keep_theirs(refresh: Refresh) -> None:
    folder = started(refresh)
    assert [folder.of("q", 0), folder.of("other", 0)] == ["a", "a"]
    folder.content = "b"
    folder.listings.again("q")
    assert [folder.of("q", 0), folder.of("other", 0)] == ["b", "a"]
    assert folder.afresh == 2
    assert folder.of("other", 1) == "b"
    assert folder.dropped == ["a"]


def test_outside_of_batches_the_newest_counts() -> None:
    folder = started(EveryBatch())
    folder.content = "b"
    assert folder.listings.of(None) == ["a"]
    folder.of("q", 0)
    assert folder.listings.of(None) == ["b"]


def test_no_batch_begins_with_a_listing_that_does_not_hold() -> None:
    folder = started(Never())
    assert folder.of("q", 0) == "a"
    folder.content, folder.broken = "b", ["a"]
    assert [folder.of("q", 0), folder.of("q", 1), folder.of("q", 2)] == ["a", "b", "b"]
    assert (folder.afresh, folder.dropped) == (2, ["a"])
    assert folder.listings.bound_to("q") == ["b"]
    assert folder.listings.bound_to("other") is None
