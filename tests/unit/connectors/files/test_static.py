"""Where copies go."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.connectors.contract import Unreadable
from headwater.connectors.files.static import Layout


def placed(layout: Layout, roots: list[str], files: list[str]) -> dict[str, str]:
    found = layout.places(map(Path, roots), map(Path, files))
    return {str(place): str(file) for place, file in found.items()}


def test_a_flat_folder_is_its_own_files_only() -> None:
    assert placed(Layout(()), ["/t"], ["/t/a", "/t/b", "/t/below/c", "/t/day=1/d"]) == {
        "0/a": "/t/a",
        "0/b": "/t/b",
    }


def test_key_value_folders_stay_and_others_are_passed_over() -> None:
    files = ["/t/Day=1/a", "/t/day=1/sub/b", "/t/c", "/t/hour=1/d", "/t/day=1/hour=2/e"]
    assert placed(Layout(("day",)), ["/t"], files) == {
        "0/Day=1/a": "/t/Day=1/a",
        "0/day=1/sub/b": "/t/day=1/sub/b",
    }


def test_a_column_that_moves_from_the_files_into_folders_is_refused() -> None:
    with pytest.raises(Unreadable):
        placed(Layout((), ("v", "Day")), ["/t"], ["/t/day=1/a"])


def test_files_that_were_named_lie_in_their_folders() -> None:
    files = ["/t/day=1/a", "/u/a"]
    assert placed(Layout(()), files, files) == {"0/a": "/t/day=1/a", "1/a": "/u/a"}


def test_a_base_that_was_named_counts_for_all() -> None:
    layout = Layout(("day",), base=Path("/t"))
    assert placed(layout, ["/t/day=1"], ["/t/day=1/a"]) == {"0/day=1/a": "/t/day=1/a"}


def test_where_folders_are_searched_every_file_belongs() -> None:
    files = ["/t/a", "/t/b/c=1/d"]
    assert placed(Layout((), recursive=True), ["/t"], files) == {"0/a": "/t/a", "0/b/c=1/d": "/t/b/c=1/d"}
