"""What a run shows: on a terminal of ordinary width, in lines, as JSON."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console, RenderableType

from headwater.checks import Finding, Severity
from headwater.checks.changes import setting_frozen
from headwater.cli.views import LineView, LiveView, view_of
from headwater.events import (
    BatchRunFinished,
    Event,
    Found,
    InputsIdle,
    QueryProgress,
    QuerySummary,
    RunFinished,
    RunStarted,
    SinkFinished,
    SinkStarted,
    SparkStarting,
    StartPhase,
)
from headwater.values.secrets import Revealed

PROGRESS = {
    "batchId": 1570,
    "numInputRows": 5530,
    "processedRowsPerSecond": 1412.3,
    "batchDuration": 11290,
    "eventTime": {"watermark": "2026-01-01T09:31:39.123Z"},
}


def test_eighty_columns_hold_every_number_and_cut_only_long_names() -> None:
    view = LiveView()
    for query in ("priced", "revenue_of_all_our_shops"):
        view.show(QueryProgress(query=query, rows_out=5500, progress=PROGRESS))
    output = io.StringIO()
    Console(file=output, width=80).print(view._table())
    batch = "running 1570 5,530 1,412 5,500 487 2026-01-01 09:31:39 11.29 s"
    assert [" ".join(line.split()) for line in output.getvalue().splitlines()] == [
        "query status batch in in/s out out/s watermark time",
        f"priced {batch}",
        f"revenue_of_al… {batch}",
    ]


def test_bad_and_late_rows_have_columns_once_there_are_some() -> None:
    view = LiveView()
    bad = {"headwater.rows.orders": {"read": 7, "bad": 2}}
    late = [{"operatorName": "dedupe", "numRowsDroppedByWatermark": 1}]
    for more in ({"observedMetrics": bad}, {"observedMetrics": bad, "stateOperators": late}):
        view.show(QueryProgress(query="out", rows_out=5, progress={**PROGRESS, **more}))
    output = io.StringIO()
    Console(file=output, width=100).print(view._table())
    head, row = (line.split() for line in output.getvalue().splitlines())
    assert head == [
        "query",
        "status",
        "batch",
        "in",
        "in/s",
        "out",
        "out/s",
        "bad",
        "late",
        "watermark",
        "time",
    ]
    assert row[7:9] == ["4", "1"]


STARTED = RunStarted(run_id="1", pipeline="p", queries=("out",), run_dir="/f", spark_version="4")
BATCH: list[Event] = [
    SparkStarting(at="T"),
    SinkStarted(at="T", sink="shown"),
    SinkFinished(at="T", sink="shown", path="", rows=None),
    SinkStarted(at="T", sink="kept"),
    SinkFinished(at="T", sink="kept", path="/results/kept", rows=2),
    BatchRunFinished(at="T", written={"shown": "", "kept": "/results/kept"}, rows={"shown": None, "kept": 2}),
]


def drawn(picture: RenderableType) -> str:
    output = io.StringIO()
    Console(file=output, width=80).print(picture)
    return output.getvalue()


def test_a_terminal_shows_that_spark_starts_until_the_run_has_started() -> None:
    view = LiveView()
    view._console = Console(file=io.StringIO())
    assert drawn(view._picture()) == ""
    view.show(SparkStarting())
    assert "Starting Spark …" in drawn(view._picture())
    view.show(StartPhase(phase="open_files", message="Opening new files", seconds=7, done=1200, total=9000))
    assert "Opening new files: 1,200 of 9,000 … 7 s" in drawn(view._picture())
    view.show(STARTED)
    assert drawn(view._picture()) == ""
    view.show(StartPhase(phase="queries", message="Starting the queries", seconds=3, done=0, total=2))
    assert "Starting the queries: 0 of 2 … 3 s" in drawn(view._picture())
    view.show(QueryProgress(query="out", rows_out=1, progress=PROGRESS))
    assert "out" in drawn(view._picture())


def test_a_log_has_a_line_for_each_phase_that_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = "Waiting for the JVM of the previous run (process 12) to exit"
    LineView().event(StartPhase(at="T", phase="previous_jvm", message=waiting, seconds=0))
    LineView().event(StartPhase(at="T", phase="previous_jvm", message=waiting, seconds=5))
    assert capsys.readouterr().out == f"T {waiting} …\nT {waiting} … 5 s\n"


WAITS = {"sources": ["clicks"], "since_batch": 3, "watermark": None, "message": "out waits for clicks."}


def test_a_terminal_names_what_a_query_waits_for_until_it_comes_and_in_the_summary() -> None:
    view, output = LiveView(), io.StringIO()
    view._console = Console(file=output)
    view.show(QueryProgress(query="out", rows_out=1, progress=PROGRESS))
    view.show(InputsIdle(query="out", idle_inputs=(WAITS,)))
    assert drawn(view._picture()).splitlines()[-1] == "out waits for clicks."
    view.show(InputsIdle(query="out", idle_inputs=()))
    assert "waits" not in drawn(view._picture())
    view.show(InputsIdle(query="out", idle_inputs=(WAITS,)))
    query = QuerySummary(
        status="stopped",
        rows_in=2,
        rows_out=1,
        sources={},
        expectations={},
        late_rows={},
        batch=0,
        problem=None,
        idle_inputs=(WAITS,),
    )
    view.show(RunFinished(run_id="1", exit_code=0, queries={"out": query}))
    assert "waits" not in drawn(view._picture())
    assert output.getvalue() == "Run finished\n  out: stopped, 2 rows in, 1 out\n    out waits for clicks.\n"


def test_a_terminal_shows_which_sink_is_written() -> None:
    view, output = LiveView(), io.StringIO()
    view._console = Console(file=output)
    for event, doing in zip(
        BATCH[:4], ("Starting Spark", "shown: started", "", "kept: started"), strict=True
    ):
        view.show(event)
        assert doing in drawn(view._picture())
        assert bool(doing) == bool(drawn(view._picture()))
    assert output.getvalue() == "shown: written\n"


def test_a_batch_run_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with view_of(as_json=False) as view:
        for event in BATCH:
            view.event(event)
    assert capsys.readouterr().out.splitlines() == [
        "T Starting Spark …",
        "T shown: started",
        "T shown: written",
        "T kept: started",
        "T kept: written to /results/kept, 2 rows",
    ]


def test_a_batch_run_as_json_leaves_what_others_print_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    with view_of(as_json=True) as view:
        for event in BATCH:
            view.event(event)
        sys.stdout.write("printed by the user's function\n")
        view.line("printed by Spark")
    sys.stdout.write("after it\n")
    captured = capsys.readouterr()
    *lines, last = captured.out.splitlines()
    assert [json.loads(line) for line in lines] == [event.to_json() for event in BATCH]
    assert [json.loads(line)["event"] for line in lines] == [
        "spark_starting", "sink_started", "sink_finished", "sink_started", "sink_finished",
        "batch_run_finished",
    ]  # fmt: skip
    assert last == "after it"
    assert captured.err == "printed by the user's function\nprinted by Spark\n"


def test_a_secret_that_is_a_number_leaves_json_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    revealed = Revealed()
    revealed.add("5530", 'a"b')
    monkeypatch.setattr("headwater.values.secrets._REVEALED", revealed)
    told = {"numInputRows": 5530, "ok": True, "none": None, "texts": ("key 5530", {'a"b': ['say a"b']})}
    with view_of(as_json=True) as view:
        view.event(QueryProgress(query="out", rows_out=5530, progress=told))
    event = json.loads(capsys.readouterr().out)
    assert (event["rows_out"], event["progress"]) == (
        5530,
        {"numInputRows": 5530, "ok": True, "none": None, "texts": ["key ***", {"***": ["say ***"]}]},
    )


def test_a_finding_is_an_event_with_version_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding(
        setting_frozen.entry.at(sink="out", key="k", kept="1", wanted="2"), Severity.WARNING, "out"
    )
    with view_of(as_json=True) as view:
        view.event(Found(finding=finding.to_json()))
        view.event(BATCH[0])
    told, event = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(told)[:3] == list(event)[:3] == ["event", "version", "at"]
    assert {key: told[key] for key in ("event", "version", "severity", "code")} == {
        "event": "finding",
        "version": 1,
        "severity": "warning",
        "code": "HW-SETTING-FROZEN",
    }
