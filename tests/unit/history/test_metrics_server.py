"""The HTTP server of metrics and probes, asked over a real socket."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from headwater.errors import SetupError, UsageError
from headwater.events import Alert, QueryStarted, QueryStatus, QueryTerminated, RunFinished
from headwater.events.status import RunView
from headwater.history.metrics_server import MAX_REQUESTS, Address, MetricsServer
from tests.run_views import AT, QUERIES, progress, run_view

SECONDS = 10.0
FREE = Address(port=0)


@contextmanager
def serving(
    *views: RunView, alive: Callable[[], bool] = lambda: True, address: Address = FREE
) -> Iterator[MetricsServer]:
    server = MetricsServer(address, lambda: views, alive)
    try:
        yield server
    finally:
        server.close()


def ask(
    server: MetricsServer, path: str, method: str = "GET", accept: str = ""
) -> tuple[int, str | None, bytes]:
    address = server.address
    with closing(http.client.HTTPConnection(address.host, address.port, timeout=SECONDS)) as connection:
        connection.request(method, path, headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()


def health(server: MetricsServer, path: str) -> tuple[int, Any]:
    status, content_type, body = ask(server, path)
    assert content_type == "application/json"
    return status, json.loads(body)


@pytest.mark.feature("G3.1", part="HTTP")
def test_metrics_are_served_in_the_format_that_is_asked_for() -> None:
    with serving(run_view()) as server:
        status, content_type, body = ask(server, "/metrics")
        assert (status, (content_type or "").partition(";")[0]) == (200, "text/plain")
        assert b'headwater_query_batches_total{pipeline="shop",query="clicks"} 2.0\n' in body
        status, content_type, body = ask(server, "/metrics?x=1", accept="application/openmetrics-text")
        assert (status, (content_type or "").partition(";")[0]) == (200, "application/openmetrics-text")
        assert body.endswith(b"# EOF\n")


def test_there_is_nothing_else() -> None:
    with serving(run_view()) as server:
        assert ask(server, "/")[0] == 404
        assert ask(server, "/metrics/")[0] == 404
        assert ask(server, "/../etc/passwd")[0] == 404
        assert [ask(server, "/metrics", method)[0] for method in ("POST", "PUT", "DELETE", "HEAD")] == [
            501
        ] * 4


def test_a_scrape_shows_the_newest_batch() -> None:
    view = run_view()
    with serving(view) as server:
        view.apply(progress("files", 1))
        assert (
            b'headwater_query_batches_total{pipeline="shop",query="files"} 2.0\n'
            in ask(server, "/metrics")[2]
        )


def test_live_while_the_run_can_act() -> None:
    alive = True
    with serving(run_view(), alive=lambda: alive) as server:
        assert health(server, "/health/live") == (200, {"alive": True, "reasons": []})
        alive = False
        assert health(server, "/health/live") == (503, {"alive": False, "reasons": [{"reason": "stopped"}]})


def reasons(server: MetricsServer) -> tuple[int, list[tuple[str | None, str]]]:
    status, answer = health(server, "/health/ready")
    assert answer["ready"] is (status == 200)
    return status, [(each.get("query"), each["reason"]) for each in answer["reasons"]]


def test_ready_once_every_query_has_started() -> None:
    views: list[RunView] = []
    server = MetricsServer(FREE, lambda: views)
    try:
        assert reasons(server) == (503, [(None, "starting")])
        views.append(RunView())
        assert reasons(server) == (503, [(None, "starting")])
        views[0] = view = run_view()
        assert health(server, "/health/ready") == (
            503,
            {"ready": False, "reasons": [{"pipeline": "shop", "query": "lost", "reason": "failed"}]},
        )
        view.apply(QueryStarted(query="lost", id="lost-id", run_id="2"))
        assert reasons(server) == (503, [("lost", "starting")])
        view.apply(progress("lost", 0))
        assert reasons(server) == (200, [])
        # A query that was restarted has been ready before.
        view.apply(QueryStarted(query="files", id="files-id", run_id="2"))
        assert reasons(server) == (200, [])
        view.apply(QueryTerminated(query="lost", status=QueryStatus.FINISHED))
        assert reasons(server) == (200, [])
    finally:
        server.close()


@pytest.mark.parametrize(("code", "status", "found"), [(0, 200, []), (1, 503, [(None, "failed")])])
def test_a_run_that_ended_before_its_queries_is_not_starting(
    code: int, status: int, found: list[tuple[str | None, str]]
) -> None:
    view = RunView()
    view.run_id, view.pipeline, view.started_at = "r1", "shop", AT
    with serving(view) as server:
        assert reasons(server) == (503, [(None, "starting")])
        view.apply(RunFinished(run_id="r1", exit_code=code, queries={}))
        assert reasons(server) == (status, found)


def test_a_critical_alert_makes_it_unready() -> None:
    view = run_view()
    view.apply(QueryStarted(query="lost", id="i", run_id="again"))
    view.apply(progress("lost", 0))

    def alert(active: bool) -> Alert:
        return Alert(
            query="files", alert="disk", severity="critical", active=active, code="HW-X", message="Full."
        )

    with serving(view) as server:
        view.apply(alert(True))
        assert reasons(server) == (503, [("files", "critical")])
        view.apply(alert(False))
        assert reasons(server) == (200, [])


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9464", "127.0.0.1", 9464),
        (" 0 ", "127.0.0.1", 0),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("node-1.example.org:65535", "node-1.example.org", 65535),
        ("[::1]:9464", "::1", 9464),
    ],
)
def test_an_address(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "x", "host:", ":9464", "65536", "::1:9464", "a:b:1", "http://a:1", "-1"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError) as error:
        Address.parse(text)
    (problem,) = error.value.problems
    assert (problem.code, problem.params) == ("HW-METRICS-ADDRESS-INVALID", {"text": text})


def test_a_port_in_use_is_an_error_with_a_remedy() -> None:
    with serving() as server, pytest.raises(SetupError) as error:
        MetricsServer(server.address, list)
    (problem,) = error.value.problems
    assert problem.code == "HW-METRICS-ADDRESS-IN-USE"
    assert problem.params == {"address": str(server.address)}
    assert "--metrics 0" in problem.hint


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(SetupError) as error:
        MetricsServer(Address("192.0.2.1", 9464), list)
    (problem,) = error.value.problems
    assert problem.code == "HW-METRICS-PORT-UNAVAILABLE"
    assert problem.params == {"address": "192.0.2.1:9464", "reason": "Cannot assign requested address"}


def test_a_closed_server_releases_its_port() -> None:
    with serving() as server:
        address = server.address
    with serving(address=address) as again:
        assert ask(again, "/health/live")[0] == 200


def codes(server: MetricsServer) -> Sequence[str]:
    return [problem.code for problem in server.notices]


def test_only_an_address_that_others_reach_is_warned_of() -> None:
    with serving() as server:
        assert codes(server) == ["HW-METRICS-SERVED"]
        assert server.notices[0].params == {"url": f"http://127.0.0.1:{server.address.port}/metrics"}
    with serving(address=Address("localhost", 0)) as server:
        assert codes(server) == ["HW-METRICS-SERVED"]
    with serving(address=Address("0.0.0.0", 0)) as server:
        assert codes(server) == ["HW-METRICS-SERVED", "HW-METRICS-EXPOSED"]
        assert f"0.0.0.0:{server.address.port}" in server.notices[1].message


def test_requests_beyond_the_limit_are_closed() -> None:
    """Clients that send nothing occupy the server; it closes further connections, and recovers."""
    with serving(run_view()) as server:
        place = (server.address.host, server.address.port)
        silent = [socket.create_connection(place, SECONDS) for _ in range(MAX_REQUESTS)]
        with socket.create_connection(place, SECONDS) as one_more:
            assert one_more.recv(1) == b""
        for each in silent:
            each.close()
        assert _eventually(lambda: ask(server, "/health/live")[0] == 200)


def _eventually(condition: Callable[[], bool]) -> bool:
    over = threading.Event()
    timer = threading.Timer(SECONDS, over.set)
    timer.start()
    try:
        while not over.is_set():
            try:
                if condition():
                    return True
            except (ConnectionError, http.client.BadStatusLine):
                continue
        return False
    finally:
        timer.cancel()


def test_scrapes_while_events_arrive() -> None:
    view = run_view()
    stop = threading.Event()

    def work() -> None:
        batch = 1
        while not stop.is_set():
            view.apply(progress(QUERIES[batch % 2], batch))
            batch += 1

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with serving(view) as server:
            for _ in range(20):
                status, _, body = ask(server, "/metrics")
                counts = [float(line.rpartition(b" ")[2]) for line in body.splitlines() if _is_clicks(line)]
                # Rows and batches are of one moment: a batch has 100 rows.
                assert (status, counts[1]) == (200, counts[0] * 100)
    finally:
        stop.set()
        worker.join()


def _is_clicks(line: bytes) -> bool:
    return line.startswith((b"headwater_query_batches_total{", b"headwater_query_rows_in_total{")) and (
        b'"clicks"' in line
    )
