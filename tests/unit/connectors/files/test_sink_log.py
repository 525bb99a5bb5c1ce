from __future__ import annotations

import pytest

from headwater.connectors.files.sink_folder import newest, removable


@pytest.mark.parametrize(
    ("names", "batch", "expected"),
    [
        ([], 0, []),
        (["0", "1"], 1, ["1"]),
        (["0", "1"], 2, []),
        (["0", "1", "2.compact"], 2, ["2.compact"]),
        (["2.compact", "3", "4"], 4, ["4"]),
        (["2.compact", "3", "4", "5.compact"], 5, ["5.compact"]),
    ],
)
def test_the_newest_batch_can_be_taken_out(names: list[str], batch: int, expected: list[str]) -> None:
    assert removable(names, batch) == expected


@pytest.mark.parametrize(
    ("names", "batch"),
    [
        ([], None),
        ([".0.crc", "_tmp"], None),
        (["0"], 0),
        (["8", "9.compact", ".11.crc"], 9),
        (["9", "10"], 10),
    ],
)
def test_the_newest_batch(names: list[str], batch: int | None) -> None:
    assert newest(names) == batch


@pytest.mark.parametrize("names", [["5.compact"], ["4", "5.compact"], ["2.compact", "4", "5.compact"]])
def test_a_compact_file_stays_when_it_alone_holds_earlier_batches(names: list[str]) -> None:
    assert removable(names, 5) == []
