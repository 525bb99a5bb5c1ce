"""What all tests share."""

from __future__ import annotations

import os

import pytest

# No test makes an archive of classes in the cache of the user; `tests/short_lives.py` has one for all tests.
os.environ.setdefault("HEADWATER_CLASS_DATA", "off")

pytest_plugins = ["tests.feature_report"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `soak`, unless `make soak` runs: the gate has no time for every variant."""
    if os.environ.get("HEADWATER_SOAK") or config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
