from __future__ import annotations

import pytest

from headwater.dev.processes import reason_of

BROKER = "x INFO a: up\nx ERROR b: bad thing.\n\tat some.Class\njava.lang.Error: Exception here\nx INFO shut"
POSTGRES = "t LOG:  starting\nt FATAL:  could not open file.\n\tERROR in a detail\nt LOG:  shut down"
INITDB = "creating directory … ok\ninitdb: error: no locale\ninitdb: removing data directory"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (BROKER, "java.lang.Error: Exception here"),
        (POSTGRES, "t FATAL:  could not open file"),
        (INITDB, "initdb: error: no locale"),
        ("x INFO a: up\n", "x INFO a: up"),
        ("", "the log is empty"),
    ],
)
def test_the_reason_is_the_last_error_in_the_output(output: str, reason: str) -> None:
    assert reason_of(output) == reason
