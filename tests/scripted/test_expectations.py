"""Expectations in scripted tests: rows that fail go their declared way."""

from __future__ import annotations

import pytest

from headwater.testing.test_runner import TestRunner
from tests.scripted.plays import play_file


@pytest.mark.feature("K3", part="scripted tests")
def test_expectations_act_in_scripted_tests(player: TestRunner) -> None:
    play_file(player, "expectations/tests/test_payments.yml")
