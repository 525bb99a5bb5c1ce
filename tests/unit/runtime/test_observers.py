"""What the observers of a run report of themselves."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.api.remote import connect
from headwater.events import Event, EventsDropped, Notice
from headwater.events.status import RunView
from headwater.history import recorder
from headwater.history.metrics import RunCollector
from headwater.runtime.observers import Observed, Observers

SECONDS = 20.0


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_STATE_DIR", str(tmp_path / "state"))


def notice(number: int) -> Notice:
    return Notice(code="HW-X", message=str(number))


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def dropped_in_metrics(view: RunView) -> dict[str, float]:
    families = {family.name: family for family in RunCollector(lambda: [view]).collect()}
    return {each.labels["consumer"]: each.value for each in families["headwater_events_dropped"].samples}


def test_events_that_are_lost_are_in_the_status_the_metrics_and_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "MOST_PENDING", 10)
    run_dir, seen = tmp_path / "run", list[Event]()
    # Neither SQLite nor the event log can write to a directory.
    (run_dir / "history.sqlite").mkdir(parents=True)
    observers = Observers(Observed("shop", run_dir, event_log=str(tmp_path)), "r1", seen.append)
    observers.open()
    sent = [notice(number) for number in range(30)]
    for event in sent:
        observers(event)
    lost = {"event log": 30, "history": 20}
    until(lambda: connect(run_dir).to_json()["events_dropped"] == lost)
    assert dropped_in_metrics(observers.view) == lost
    until(lambda: sum(each.dropped for each in seen if isinstance(each, EventsDropped)) == 50)
    observers.close()
    # Until the end, the newest ten waited for the disk.
    assert observers.view.dropped == {"event log": 30, "history": 30}
    assert [each for each in seen if isinstance(each, Notice)] == sent
    assert Counter(record.message.partition(": ")[0] for record in caplog.records) == {
        "HW-HISTORY-UNWRITABLE": 1,
        "HW-EVENT-LOG-UNWRITABLE": 1,
        "HW-EVENTS-DROPPED": 2,
    }
