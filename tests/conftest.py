"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

# No test makes an archive of classes in the cache of the user; `tests/short_lives.py` has one for all tests.
os.environ.setdefault("HEADWATER_CLASS_DATA", "off")

pytest_plugins = ["tests.feature_report"]
# As in a terminal: under `nohup`, or started with `&` by a script, every child ignores the signal.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """`headwater status` of the user lists no runs of tests, which also start processes."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEADWATER_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `soak`, unless `make soak` runs: the gate has no time for every variant."""
    if os.environ.get("HEADWATER_SOAK") or config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
