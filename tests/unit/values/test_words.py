"""Suggestions for misspelled names, and counts."""

import pytest

from headwater.values import count_of, nearest


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("topc", "topic"),
        ("TOPIC", "topic"),
        ("serverz", "Servers"),
        ("colour", None),
        ("", None),
    ],
)
def test_finds_the_closest_candidate_whatever_the_case(word: str, expected: str | None) -> None:
    assert nearest(word, ["format", "topic", "Servers"]) == expected


def test_no_candidates() -> None:
    assert nearest("topic", []) is None


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "no rows"), (1, "1 row"), (2, "2 rows"), (1204, "1,204 rows")],
)
def test_counts_have_the_number_of_their_noun(number: int, expected: str) -> None:
    assert count_of(number, "row") == expected


def test_a_plural_can_be_given() -> None:
    assert count_of(3, "query", "queries") == "3 queries"
