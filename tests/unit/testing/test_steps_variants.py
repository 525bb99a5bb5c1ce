"""The same test under harder conditions."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headwater.testing.steps import Advance, Check, Crash, Feed, Start, Step, Stop, Test, crashed, shuffled


def made(*steps: Step) -> Test:
    return Test("t", Path("p.yml"), steps)


@given(st.integers(0, 20), st.integers(1, 50))
def test_shuffled_rows_are_the_same_rows_in_another_order(count: int, number: int) -> None:
    rows = [[value] for value in range(count)]
    test = made(Feed({"a": rows, "b": [[0], [1]]}, late=3), Advance("1 hour"))
    other = shuffled(test, number)
    feed = other.steps[0]
    assert isinstance(feed, Feed)
    assert (sorted(feed.rows["a"]), feed.late, other.steps[1]) == (rows, 3, test.steps[1])  # type: ignore[type-var]
    assert (list(feed.rows["a"]) != rows) == (count > 1)
    assert feed.rows["b"] == [[1], [0]]
    assert (other.name, shuffled(test, number)) == (f"t [shuffled {number}]", other)


def test_numbers_give_different_orders() -> None:
    test = made(Feed({"a": [[value] for value in range(20)]}))
    assert len({str(shuffled(test, number).steps) for number in range(1, 6)}) == 5


def test_a_crash_comes_after_every_feed_that_can_crash() -> None:
    feed, failing = Feed({"a": [[1]]}, late=1), Feed({"a": [[2]]}, fails="HW-X")
    test = made(feed, Check(), feed, Crash(), Stop(), feed, Start(), failing)
    other = crashed(test)
    assert other.name == "t [crashed]"
    assert list(other.steps) == [
        feed, Crash(), Check(), feed, Crash(), Stop(), feed, Start(), failing,
    ]  # fmt: skip
