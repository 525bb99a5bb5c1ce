"""What the process that runs a script makes of its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.errors.catalogue.programs import SCRIPT_FAILED
from headwater.programs.script import _cut_off

GATEWAY = "PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited"


@pytest.mark.parametrize(
    ("detail", "output", "code", "error"),
    [
        (
            "requests: Max retries exceeded with url: /.",
            "",
            "HW-SCRIPT-NETWORK",
            "requests: Max retries exceeded with url: /",
        ),
        (
            GATEWAY,
            "a\n  :: unresolved dependency: a#b;1: not found\nb",
            "HW-SCRIPT-NETWORK",
            "unresolved dependency: a#b;1: not found",
        ),
        ("KeyError: 1", "Connection refused", "HW-SCRIPT-FAILED", "it"),
    ],
)
def test_a_failure_for_want_of_a_network_says_so(detail: str, output: str, code: str, error: str) -> None:
    problem = _cut_off(replace(SCRIPT_FAILED.at(None, error="it"), detail=detail), output)
    assert (problem.code, problem.params["error"]) == (code, error)
