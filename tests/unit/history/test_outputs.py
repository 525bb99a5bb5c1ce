"""Event logs, webhooks and functions: what they receive, and that their failures stay theirs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headwater.errors import PipelineError
from headwater.events import Alert, Event, EventsDropped, Found, Notice, QueryIdle, QueryStarted
from headwater.events.bus import EventBus
from headwater.history.outputs import JsonLinesFile, Webhook, function_consumer
from headwater.values import secret
from tests.unit.history.events import batch, started

NOTICE = Notice(message="ä", code="HW-X")


def lines(file: Path) -> list[object]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_no_secret_is_written_or_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTPUT_TOKEN", "output-and-secret")
    secret("OUTPUT_TOKEN").reveal()
    event = Found(finding={"code": "HW-X", "message": "It said output-and-secret."})
    log = JsonLinesFile(tmp_path / "events.jsonl")
    log(event)
    log.close()
    with serving() as server:
        Webhook(server.url, "shop", frozenset({"finding"}))(event)
        ((_, _, sent),) = server.received
    shown = {**event.to_json(), "message": "It said ***."}
    assert (lines(log.path), sent) == ([shown], {"pipeline": "shop", **shown})


# A file with JSON lines.


@pytest.mark.feature("G2", part="events in a log file")
def test_each_event_is_one_line(tmp_path: Path) -> None:
    log = JsonLinesFile(tmp_path / "logs" / "events.jsonl")
    idle, other = QueryIdle(query="out"), QueryIdle(query="other")
    for event in (started(), batch(1), idle, idle, other, idle, batch(2), idle, NOTICE):
        log(event)
    # Before it is closed: every line is flushed.
    kept: list[Event] = [started(), batch(1), idle, other, batch(2), idle, NOTICE]
    assert lines(log.path) == [json.loads(json.dumps(event.to_json())) for event in kept]
    assert "ä" in log.path.read_text(encoding="utf-8")
    log.close()
    log(NOTICE)
    log.close()
    assert len(lines(log.path)) == 8


def test_a_file_that_is_rotated_is_created_again(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    log = JsonLinesFile(file)
    log(NOTICE)
    file.rename(tmp_path / "events.jsonl.1")
    log(NOTICE)
    file.rename(tmp_path / "events.jsonl.2")
    file.touch()
    log(NOTICE)
    log.close()
    assert [len(lines(each)) for each in sorted(tmp_path.iterdir())] == [1, 1, 1]


def test_a_file_that_cannot_be_written_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.write_text("a file where the directory should be")
    log = JsonLinesFile(folder / "events.jsonl")
    for _ in range(3):
        log(NOTICE)
    assert (log.outage.failures, log.lost) == (3, 3)
    # To count this one would report it, which would fail as well.
    log(EventsDropped(consumer="event log", dropped=3))
    assert (log.outage.failures, log.lost) == (4, 3)
    assert [record.message.partition(":")[0] for record in caplog.records] == ["HW-EVENT-LOG-UNWRITABLE"]
    folder.unlink()
    log(NOTICE)
    log.close()
    assert len(lines(log.path)) == 1


# A webhook.


class Server(ThreadingHTTPServer):
    """Answers with the given codes in turn, then 200, and keeps what it received."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.codes: list[int] = []
        self.location = ""
        self.gets: list[str] = []
        self.received: list[tuple[str, str, object]] = []
        self.release = threading.Event()
        self.release.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook/token-4711"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append((self.path, self.headers["Content-Type"], body))
        self.server.release.wait(20)
        self.send_response(self.server.codes.pop(0) if self.server.codes else 200)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()

    def do_GET(self) -> None:
        self.server.gets.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to the terminal."""


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        thread.join()
        server.server_close()


ALERT = Alert(query="out", alert="falling_behind", severity="warning", active=True, code="HW-Y", message="m")


@pytest.mark.feature("G2", part="events to a webhook")
def test_alerts_and_notices_are_posted() -> None:
    with serving() as server:
        hook = Webhook(server.url, "shop")
        for event in (started(), batch(1), QueryIdle(query="out"), ALERT, NOTICE):
            hook(event)
        assert hook.outage.failures == 0
        sent = [{"pipeline": "shop", **event.to_json()} for event in (started(), ALERT, NOTICE)]
        path, kind = "/hook/token-4711", "application/json; charset=utf-8"
        assert server.received == [(path, kind, json.loads(json.dumps(each))) for each in sent]


def test_the_kinds_can_be_chosen() -> None:
    with serving() as server:
        hook = Webhook(server.url, "shop", frozenset({"query_started"}))
        for event in (started(), QueryStarted(query="out", id="i", run_id="r")):
            hook(event)
        assert len(server.received) == 1


@pytest.mark.parametrize(
    ("codes", "posts", "failures"), [([503, 429], 3, 0), ([500] * 3, 3, 1), ([404], 1, 1), ([408], 2, 0)]
)
def test_only_what_a_retry_can_fix_is_retried(codes: list[int], posts: int, failures: int) -> None:
    with serving() as server:
        server.codes = list(codes)
        hook = Webhook(server.url, "shop", backoff=0.01)
        hook(NOTICE)
        assert (len(server.received), hook.outage.failures) == (posts, failures)


@pytest.mark.parametrize("code", [300, 301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_with_a_remedy(code: int, caplog: pytest.LogCaptureFixture) -> None:
    with serving() as other, serving() as server:
        server.codes, server.location = [code], other.url.replace("/hook/", "/moved/")
        hook = Webhook(server.url, "shop", backoff=0.01)
        hook(NOTICE)
        assert (len(server.received), hook.outage.failures) == (1, 1)
        assert (other.received, other.gets, server.gets) == ([], [], [])
    (record,) = caplog.records
    assert record.message.startswith(
        "HW-WEBHOOK-REDIRECTED: The server of the webhook redirected an event of kind `notice` "
        f"(HTTP status {code}). Headwater does not follow redirects"
    )
    assert "Set `webhook` to the address that the server redirects to" in record.message
    assert "token-4711" not in caplog.text


def test_a_failure_is_logged_once_and_without_the_url(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as server:
        monkeypatch.setenv("HOOK_URL", server.url)
        hook = Webhook(secret("HOOK_URL"), "shop", backoff=0.01)
        server.codes = [404, 404]
        hook(NOTICE)
        hook(NOTICE)
        hook(NOTICE)
        assert (hook.outage.failures, len(server.received)) == (2, 3)
        server.codes = [410]
        hook(ALERT)
    hook(ALERT)
    assert [record.message.partition(" Check")[0] for record in caplog.records] == [
        "HW-WEBHOOK-FAILED: The webhook did not accept an event of kind `notice`: HTTP status 404.",
        "HW-WEBHOOK-FAILED: The webhook did not accept an event of kind `alert`: HTTP status 410.",
    ]
    assert hook.outage.failures == 4
    assert "token-4711" not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/token-4711",
        "http://127.0.0.1:99999/token-4711",
        "http://[token-4711",
        "http://host:token-4711/",
    ],
)
def test_an_invalid_url_is_a_failure(url: str, caplog: pytest.LogCaptureFixture) -> None:
    hook = Webhook(url, "shop", backoff=0.01)
    hook(NOTICE)
    assert hook.outage.failures == 1
    assert "HW-WEBHOOK-FAILED" in caplog.text
    assert "token-4711" not in caplog.text


def test_a_secret_without_a_value_is_found_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK_URL", raising=False)
    with pytest.raises(PipelineError, match="HW-SECRET-MISSING"):
        Webhook(secret("HOOK_URL"), "shop")


def test_a_closed_webhook_does_not_wait_for_a_retry() -> None:
    with serving() as server:
        server.codes = [500] * 3
        hook = Webhook(server.url, "shop", backoff=3_600.0)
        hook.close()
        hook(NOTICE)
        assert (len(server.received), hook.outage.failures) == (1, 1)


def test_a_webhook_that_does_not_answer_delays_no_other_consumer() -> None:
    seen, bus = list[Event](), EventBus()
    with serving() as server:
        server.release.clear()
        bus.add("webhook", Webhook(server.url, "shop"), capacity=10)
        bus.add("seen", seen.append)
        for _ in range(1_000):
            bus(NOTICE)
        deadline = time.monotonic() + 10
        while seen.count(NOTICE) < 1_000:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert len(server.received) <= 1
        server.release.set()
        bus.close()


# A function.


@pytest.mark.feature("G2", part="events to any callable")
def test_a_function_is_called_with_each_event() -> None:
    seen = list[Event]()
    consume = function_consumer(seen.append, "alerts.py:notify")
    idle = QueryIdle(query="out")
    for event in (started(), idle, idle, NOTICE):
        consume(event)
    assert seen == [started(), idle, NOTICE]


def test_a_function_that_fails_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    seen = list[Event]()

    def notify(event: Event) -> None:
        if event is NOTICE:
            raise ValueError("no such channel")
        seen.append(event)

    consume = function_consumer(notify, "alerts.py:notify")
    for event in (NOTICE, NOTICE, ALERT):
        consume(event)
    assert seen == [ALERT]
    assert [record.message.partition(" Fix")[0] for record in caplog.records] == [
        "HW-EVENT-FUNCTION-FAILED: Function alerts.py:notify failed on an event of kind `notice`: "
        "ValueError: no such channel."
    ]
