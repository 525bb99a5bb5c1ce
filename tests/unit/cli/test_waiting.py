"""What `check` and `explain` show while Spark starts."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from headwater.api import checking
from headwater.cli.check_views import waiting
from headwater.engine.outcome import CheckOutcome
from headwater.events import Event, Said, SparkStarting
from tests.unit.cli.conftest import Headwater

GOOD = """
name: p
sources: {clicks: {connector: rate}}
sinks: {out: {reads: clicks, connector: noop}}
"""


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("as_json", "event", "shown"),
    [
        (False, SparkStarting(), "Starting Spark …\n"),
        (False, Said(text="waiting for executors"), "waiting for executors\n"),
        (True, Said(text="waiting for executors"), ""),
        (True, SparkStarting(), ""),
    ],
)
def test_elsewhere_a_line_beside_the_output(
    capsys: pytest.CaptureFixture[str], as_json: bool, event: Event, shown: str
) -> None:
    with waiting(as_json=as_json) as emit:
        emit(event)
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", shown)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_status_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with waiting(as_json=False) as emit:
        emit(SparkStarting())
    text = terminal.getvalue()
    assert "Starting Spark …" in text
    # Its line is erased, and the cursor is there again.
    assert text.rindex("\x1b[2K") > text.rindex("Starting Spark")
    assert "\x1b[?25h" in text


def test_a_full_check_says_that_spark_starts_and_an_offline_one_does_not(
    headwater: Headwater, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "good.yml"
    file.write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr("headwater.api.full_check.check_with_spark", lambda *_: CheckOutcome([], {}, {}))
    assert headwater("check", file).err == "Starting Spark …\n"
    assert headwater("check", file, "--json").err == ""
    assert headwater("check", file, "--offline").err == ""
    file.write_text("name: p\n", encoding="utf-8")
    assert "Starting Spark" not in headwater("check", file).err
    assert checking.check(file).errors
