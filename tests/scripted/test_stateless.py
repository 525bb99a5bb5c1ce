"""What looks at one row, or one part of a batch, at a time: SQL and every kind of Python function."""

from __future__ import annotations

import pytest

from headwater.testing.test_runner import TestRunner
from tests.scripted.plays import play_file


@pytest.mark.feature("C1.1")
@pytest.mark.feature("C1.2")
def test_rows_are_selected_filtered_exploded_and_mapped(player: TestRunner) -> None:
    play_file(player, "stateless_functions/tests/test_stateless_functions.yml")
