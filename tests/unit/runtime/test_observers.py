"""What the observers of a run report of themselves."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.api.remote import connect
from headwater.errors import UsageError
from headwater.events import Event, EventsDropped, Notice, QueryStatus, QueryTerminated, RunFinished
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


# Metrics.


def scraped(url: str) -> list[str]:
    with urllib.request.urlopen(url) as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return [
        line for line in lines if line.startswith(("headwater_run_exit_code{", "headwater_query_status{"))
    ]


def observing(tmp_path: Path, name: str, metrics: str = "0") -> tuple[Observers, list[Event]]:
    seen = list[Event]()
    observers = Observers(Observed(name, tmp_path / name, metrics=metrics), f"{name}-1", seen.append)
    observers.open()
    return observers, seen


def ended(observers: Observers, code: int) -> None:
    observers(RunFinished(run_id=observers.view.run_id, exit_code=code, queries={}))
    observers.close()


def url_of(seen: list[Event]) -> str:
    until(lambda: any(isinstance(each, Notice) for each in seen))
    (url,) = (str(each.fields["url"]) for each in seen if isinstance(each, Notice))
    return url


def test_a_run_that_has_ended_is_scraped_until_the_last_one_ends(tmp_path: Path) -> None:
    (first, told), (second, told_too) = observing(tmp_path, "a"), observing(tmp_path, "b")
    url = url_of(told)
    assert url_of(told_too) == url
    first(QueryTerminated(query="out", status=QueryStatus.FAILED))
    ended(first, 1)
    assert 'headwater_run_exit_code{pipeline="a"} 1.0' in scraped(url)
    assert 'headwater_query_status{pipeline="a",query="out",status="failed"} 1.0' in scraped(url)
    with urllib.request.urlopen(url.replace("/metrics", "/health/live")) as answer:
        assert answer.status == 200
    # A new run of the same pipeline replaces it.
    again, _ = observing(tmp_path, "a")
    assert scraped(url) == []
    ended(second, 0)
    assert scraped(url) == ['headwater_run_exit_code{pipeline="b"} 0.0']
    ended(again, 0)
    with pytest.raises(urllib.error.URLError):
        scraped(url)
    # The next run starts with nothing of the last ones.
    third, told = observing(tmp_path, "c")
    assert scraped(url_of(told)) == []
    third.close()


def test_runs_of_one_process_share_one_address(tmp_path: Path) -> None:
    first, told = observing(tmp_path, "a")
    address = url_of(told).removeprefix("http://").removesuffix("/metrics")
    second, told = observing(tmp_path, "b", metrics=address)
    assert url_of(told) == f"http://{address}/metrics"
    with pytest.raises(UsageError) as refused:
        observing(tmp_path, "c", metrics="9999")
    (problem,) = refused.value.problems
    assert problem.code == "HW-METRICS-ADDRESS-CONFLICT"
    assert problem.params == {"used": address, "name": "c", "address": "127.0.0.1:9999"}
    first.close()
    second.close()
