"""The peers of the benchmarks: their locks, and how their rows are compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.nexmark.queries import QUERIES
from bench.peers.environments import Peer, declared, peers
from bench.peers.nexmark import PEER_QUERIES, person_of
from bench.peers.python_peer import BID, STATELESS
from bench.peers.verify import Differs, all_rows, check, result, small_events


@pytest.mark.parametrize("peer", declared().values(), ids=list(declared()))
def test_the_lock_of_a_peer_pins_its_requirements(peer: Peer) -> None:
    pinned = peer.lock.read_text(encoding="utf-8")
    for requirement in peer.requirements:
        name, _, version = requirement.partition("==")
        assert f"{name.partition('[')[0]}=={version}" in pinned
    assert "--hash=sha256:" in pinned
    assert "://" not in pinned


def test_every_peer_has_queries_of_the_benchmark() -> None:
    assert set(PEER_QUERIES) == set(peers())
    for names in PEER_QUERIES.values():
        assert set(names) <= set(QUERIES)
        assert {"q0", "q1", "q2", "q11"} <= set(names)


def write(file: Path, rows: list[list[object]]) -> Path:
    file.write_text("".join(json.dumps(["+I", row]) + "\n" for row in rows), encoding="utf-8")
    return file


@pytest.mark.parametrize("name", sorted(STATELESS))
def test_the_functions_of_the_python_peers_return_the_right_rows(name: str, tmp_path: Path) -> None:
    events = [json.loads(line) for line in small_events()]
    rows = [STATELESS[name](event["bid"]) for event in events if event["event_type"] == BID]
    kept = [row for row in rows if row is not None]
    assert check(QUERIES[name], write(tmp_path / "rows.json", kept)) == len(kept)


def test_a_row_that_is_missing_wrong_or_repeated_is_found(tmp_path: Path) -> None:
    right = [list(row) for row in all_rows(QUERIES["q2"]).elements()]
    file = tmp_path / "rows.json"
    for wrong in (right[1:], [[0, 0], *right[1:]], [right[0], *right], []):
        with pytest.raises(Differs, match="q2"):
            check(QUERIES["q2"], write(file, wrong))


def test_a_peer_may_leave_only_the_last_windows_open(tmp_path: Path) -> None:
    query = QUERIES["q11"]
    sessions = sorted((list(row) for row in all_rows(query).elements()), key=lambda row: str(row[-1]))
    file = tmp_path / "rows.json"
    assert check(query, write(file, sessions[:-5]), closes=False) == len(sessions) - 5
    with pytest.raises(Differs, match="5 rows are missing"):
        check(query, write(file, sessions[:-5]))
    with pytest.raises(Differs, match="5 rows are missing"):
        check(query, write(file, sessions[5:]), closes=False)


def test_of_updates_the_last_row_of_a_key_counts() -> None:
    first, last = [1, "2015-07-15", 1], [1, "2015-07-15", 2]
    changes = [("+I", first), ("-U", first), ("+U", last)]
    assert list(result(QUERIES["q17"], changes).elements()) == [(1, "2015-07-15T00:00:00.000", 2)]


def test_the_key_of_a_message_is_the_person_that_acts() -> None:
    assert person_of({"bid": {"auction": 1, "bidder": 2}}) == "2"
    assert person_of({"auction": {"id": 1, "seller": 3}}) == "3"
    assert person_of({"person": {"id": 4}}) == "4"
