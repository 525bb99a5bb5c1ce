"""The schedule of a proof is the same for the same seed, and uses only what a sink has."""

from __future__ import annotations

from collections import Counter

from headwater.proof.points import BY_NAME, POINTS, Needs, Target, Victim, schedule

FILES = Target("files", frozenset({Needs.BATCHES}))
CODE = Target("code", frozenset())
SERVER = Target("server", frozenset({Needs.BATCHES, Needs.LEDGER, Needs.CONNECTIONS}))


def test_every_point_comes_once_before_any_comes_twice() -> None:
    kills = schedule(POINTS, [SERVER], 2 * len(POINTS), 1)
    assert [kill.number for kill in kills] == list(range(1, 25))
    assert {kill.point.name for kill in kills[:12]} == set(BY_NAME)
    assert set(Counter(kill.point.name for kill in kills).values()) == {2}
    assert all(kill.victim in kill.point.victims and 0 <= kill.chance < 1 for kill in kills)


def test_a_seed_decides_everything() -> None:
    one, again, other = (schedule(POINTS, [FILES, SERVER], 40, seed) for seed in (7, 7, 8))
    assert one == again
    assert one != other


def test_a_point_is_used_only_for_sinks_that_have_what_it_needs() -> None:
    kills = schedule(POINTS, [FILES, CODE, SERVER], 120, 1)
    able = {kill.point.name: set() for kill in kills}  # type: dict[str, set[str]]
    for kill in kills:
        able[kill.point.name].add(kill.sink)
    assert able["connection"] == able["after-staging"] == {"server"}
    assert able["after-sink-commit"] == {"files", "server"}
    assert able["random"] == {"files", "code", "server"}
    points = {kill.point.name for kill in schedule(POINTS, [CODE], 30, 1)}
    assert set(BY_NAME) - points == {"after-staging", "before-sink-commit", "after-sink-commit", "connection"}


def test_points_that_no_sink_supports_give_no_kills() -> None:
    assert schedule([BY_NAME["connection"]], [FILES], 5, 1) == []
    (kill,) = schedule([BY_NAME["worker"]], [FILES], 1, 1)
    assert kill.victim is Victim.WORKER


def test_without_a_number_every_point_that_a_sink_supports_comes_once() -> None:
    assert {kill.point.name for kill in schedule(POINTS, [SERVER], None, 1)} == set(BY_NAME)
    assert len(schedule(POINTS, [SERVER], None, 1)) == len(POINTS)
    assert len(schedule(POINTS, [FILES], None, 1)) == len(POINTS) - 3
    assert schedule(POINTS, [FILES], None, 1) == schedule(POINTS, [FILES], len(POINTS) - 3, 1)
    (kill,) = schedule([BY_NAME["worker"]], [FILES], None, 1)
    assert kill.point.name == "worker"
