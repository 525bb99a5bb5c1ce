"""A query that has read rows which were replayed, and has them no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import CheckpointError
from headwater.quarantine import Quarantine, replay_rows
from headwater.runtime.records import RunRecords
from headwater.runtime.resume import add_replay_source
from tests.checkpoints import facts_of, stopped
from tests.quarantines import commit, row


@pytest.mark.parametrize("there", [False, True])
def test_rows_that_are_gone_and_rows_that_are_left_are_told_apart(tmp_path: Path, there: bool) -> None:
    stopped(tmp_path, "out", {"orders": {"logOffset": 0}, "paid.again": {"logOffset": 0}})
    quarantine = Quarantine(RunRecords(tmp_path).quarantine("paid"))
    commit(quarantine, 0, [row(1)])
    if there:
        replay_rows(quarantine, lambda each: True)
    with pytest.raises(CheckpointError) as refused:
        add_replay_source(RunRecords(tmp_path), facts_of("out", "orders"))
    (problem,) = refused.value.problems
    named = {"sink": "out", "source": "paid"}
    if there:
        assert (problem.code, problem.params) == ("HW-FED-AGAIN-LEFT", named)
    else:
        assert problem.code == "HW-FED-AGAIN-GONE"
        assert problem.params == {**named, "folder": str(quarantine.directory.replay)}
