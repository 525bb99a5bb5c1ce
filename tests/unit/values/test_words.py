"""The nearest known word."""

import pytest

from headwater.values import nearest


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
