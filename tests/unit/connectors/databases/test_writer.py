"""Which staging is dropped."""

from __future__ import annotations

import pytest

from headwater.connectors.databases.writer import _is_dead


@pytest.mark.parametrize(
    ("name", "alone", "dead"),
    [
        ("headwater_staging_t_own_4", True, True),
        ("headwater_staging_t_own_5", True, True),
        ("headwater_staging_t_own_10", True, False),
        ("headwater_staging_t_old_9", True, True),
        ("headwater_staging_t_old_9", False, False),
    ],
)
def test_only_the_staging_of_dead_runs_is_dropped(name: str, alone: bool, dead: bool) -> None:
    assert _is_dead(name, "headwater_staging_t_own_5", alone) is dead
