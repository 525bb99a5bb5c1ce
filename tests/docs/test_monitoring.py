"""The dashboard and the alert rules of examples/monitoring name only series that a run exposes, and the rules fire."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from headwater.events import RunFinished
from headwater.history.metrics import RunCollector
from headwater.history.metrics_server import DEFAULT_PORT
from tests.docs.pages import DOCS, ROOT, blocks
from tests.run_views import run_view

MONITORING = ROOT / "examples" / "monitoring"
SERIES = re.compile(r"\b(headwater_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
TARGET_LABELS = {"instance", "job"}
SECONDS = 60
HAS_PROMTOOL = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")


def exposed() -> str:
    registry, view = CollectorRegistry(auto_describe=False), run_view()
    view.apply(RunFinished(run_id=view.run_id, exit_code=0, queries={}))
    registry.register(RunCollector(lambda: [view]))
    return generate_latest(registry).decode()


def labels_by_series() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(exposed()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


EXPOSED = labels_by_series()


def rules() -> list[dict[str, Any]]:
    groups = YAML(typ="safe").load(MONITORING / "alerts.yml")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    board: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    return board


def used() -> Iterator[tuple[str, str, set[str]]]:
    """Every expression with where it is, and the labels that are shown next to it."""
    for rule in rules():
        yield rule["alert"], rule["expr"], set(SHOWN.findall(str(rule["annotations"])))
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], set(SHOWN.findall(target["legendFormat"]))


EXPRESSIONS = [pytest.param(expr, shown, id=f"{where} {shown}") for where, expr, shown in used()]


@pytest.mark.feature("G3.1", part="dashboard and alert rules")
@pytest.mark.parametrize(("expression", "shown"), EXPRESSIONS)
def test_every_series_and_label_is_exposed(expression: str, shown: set[str]) -> None:
    found = SERIES.findall(expression)
    assert found
    assert [name for name, _ in found if name not in EXPOSED] == []
    for name, matchers in found:
        assert set(MATCHER.findall(matchers)) <= EXPOSED[name] | TARGET_LABELS
    known = set[str]().union(*(EXPOSED[name] for name, _ in found))
    grouped = [set(re.split(r",\s*", each)) for each in GROUPED.findall(expression)]
    assert set[str]().union(*grouped) <= known
    summed = [set(re.split(r",\s*", each)) for each in re.findall(r"\bby \(([^)]*)\)", expression)]
    assert shown <= (set[str].intersection(*summed) if summed else known)


def test_an_expression_with_an_unknown_series_is_found() -> None:
    with pytest.raises(AssertionError):
        test_every_series_and_label_is_exposed("rate(headwater_query_rows_total[5m])", set())
    with pytest.raises(AssertionError):
        test_every_series_and_label_is_exposed('headwater_query_status{state="failed"}', set())


def test_the_variables_of_the_dashboard_are_labels() -> None:
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}
    assert list(variables) == ["datasource", "pipeline", "query"]
    assert variables["datasource"]["type"] == "datasource"
    for name in ("pipeline", "query"):
        found = re.fullmatch(
            r"label_values\((headwater_\w+)(?:\{.*\})?, (\w+)\)", variables[name]["definition"]
        )
        assert found is not None
        assert found[2] == name
        assert name in EXPOSED[found[1]]


def test_the_dashboard_uses_the_chosen_data_source_and_no_id_twice() -> None:
    panels = dashboard()["panels"]
    sources = {panel["datasource"]["uid"] for panel in panels}
    sources |= {target["datasource"]["uid"] for panel in panels for target in panel["targets"]}
    assert sources == {"${datasource}"}
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_dashboard_has_no_overlapping_panels() -> None:
    cells = [
        (x, y)
        for panel in dashboard()["panels"]
        if (at := panel["gridPos"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_rules_have_names_and_severities_of_their_own() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    assert {rule["labels"]["severity"] for rule in rules()} == {"critical", "warning"}
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in rules())


def test_prometheus_scrapes_the_default_port() -> None:
    config = YAML(typ="safe").load(MONITORING / "prometheus.yml")
    assert config["scrape_configs"][0]["static_configs"] == [{"targets": [f"127.0.0.1:{DEFAULT_PORT}"]}]


def test_the_page_shows_the_configuration_and_only_known_series() -> None:
    page = DOCS / "operate" / "metrics.md"
    shown = {block.title: block.text for block in blocks(page) if block.title.startswith("examples/")}
    file = MONITORING / "prometheus.yml"
    assert shown == {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")}
    named = {name for name, _ in SERIES.findall(page.read_text(encoding="utf-8"))}
    assert named
    assert named <= EXPOSED.keys()


def promtool(*words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    command = ["promtool", *map(str, words)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=SECONDS)


@HAS_PROMTOOL
@pytest.mark.feature("G3.1", part="promtool")
def test_promtool_accepts_the_metrics_the_rules_and_the_configuration() -> None:
    checked = promtool("check", "metrics", text=exposed())
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    config = promtool("check", "config", MONITORING / "prometheus.yml")
    assert config.returncode == 0, config.stderr
    assert f"SUCCESS: {len(rules())} rules found" in config.stdout


@HAS_PROMTOOL
def test_promtool_finds_a_name_without_its_ending() -> None:
    assert promtool("check", "metrics", text="# TYPE rows counter\nrows 1\n").returncode != 0


QUERY = '{pipeline="shop", query="out"}'
FIRING: dict[str, dict[str, str]] = {
    "HeadwaterAbsent": {},
    "HeadwaterQueryFailed": {'headwater_query_status{query="out", status="failed"}': "1x120"},
    "HeadwaterQueryRestarting": {f"headwater_query_restarts_total{QUERY}": "0+1x120"},
    "HeadwaterCritical": {'headwater_alert_active{alert="disk_full", severity="critical"}': "1x120"},
    "HeadwaterWarning": {'headwater_alert_active{alert="rows_late", severity="warning"}': "1x120"},
    "HeadwaterBatchStuck": {
        f"headwater_query_last_batch_timestamp_seconds{QUERY}": "60x120",
        'headwater_query_status{pipeline="shop", query="out", status="running"}': "1x120",
    },
    "HeadwaterBatchesSlow": {
        f"headwater_query_last_batch_duration_seconds{QUERY}": "9.5x120",
        f"headwater_query_trigger_interval_seconds{QUERY}": "10x120",
    },
    "HeadwaterLagGrowing": {
        'headwater_source_lag_rows{source="in", partition="t-0"}': "200000+1000x120",
        'headwater_source_lag_rows{source="in", partition="t-1"}': "5000-1x120",
    },
    "HeadwaterFilesWaiting": {'headwater_source_waiting_files{path="/in"}': "2000+5x120"},
    "HeadwaterWatermarkOld": {
        f"headwater_query_watermark_timestamp_seconds{QUERY}": "-3600x120",
        'headwater_query_status{pipeline="shop", query="out", status="running"}': "1x120",
    },
    "HeadwaterRowsLate": {'headwater_late_rows_total{operator="join"}': "0+3x120"},
    "HeadwaterRowsBad": {
        'headwater_source_bad_rows_total{source="in"}': "0+2x120",
        'headwater_source_rows_total{source="in"}': "0+100x120",
    },
    "HeadwaterEventsDropped": {'headwater_events_dropped_total{consumer="history"}': "0+1x120"},
}
"""Series that make each rule fire, one value a minute."""
QUIET: dict[str, str] = {
    f"headwater_build_info{QUERY}": "1x120",
    'headwater_query_status{pipeline="shop", query="out", status="failed"}': "0x120",
    'headwater_query_status{pipeline="shop", query="out", status="idle"}': "1x120",
    'headwater_query_status{pipeline="shop", query="out", status="running"}': "0x120",
    f"headwater_query_last_batch_timestamp_seconds{QUERY}": "60x120",
    f"headwater_query_last_batch_duration_seconds{QUERY}": "5x120",
    f"headwater_query_trigger_interval_seconds{QUERY}": "10x120",
    f"headwater_query_watermark_timestamp_seconds{QUERY}": "-3600x120",
    f"headwater_query_restarts_total{QUERY}": "1x120",
    'headwater_source_lag_rows{source="in", partition="t-0"}': "200000-1000x120",
    'headwater_source_waiting_files{path="/in"}': "2000-5x120",
    'headwater_late_rows_total{operator="join"}': "3x120",
    'headwater_source_bad_rows_total{source="in"}': "0+1x120",
    'headwater_source_rows_total{source="in"}': "0+200x120",
    'headwater_events_dropped_total{consumer="history"}': "3x120",
}
"""A healthy query that is idle, with a lag that shrinks."""


HOURLY: dict[str, str] = {
    f"headwater_query_trigger_interval_seconds{QUERY}": "3600x120",
    'headwater_query_status{pipeline="shop", query="out", status="running"}': "1x120",
}
HOURLY_QUIET: dict[str, str] = HOURLY | {
    # 99 minutes ago: one trigger was missed, because the batch before it took long.
    f"headwater_query_last_batch_timestamp_seconds{QUERY}": "60x120",
    f"headwater_query_last_batch_duration_seconds{QUERY}": "900x120",
    f"headwater_query_watermark_timestamp_seconds{QUERY}": "-3600x120",
    'headwater_source_lag_rows{pipeline="shop", query="out", source="in", partition="t-0"}': "200000+1000x120",
    'headwater_source_waiting_files{pipeline="shop", query="out", path="/in"}': "2000+5x120",
}
"""A healthy query with the trigger `every 1 hour`, between two of its batches."""
HOURLY_FIRING: dict[str, dict[str, str]] = {
    "HeadwaterBatchStuck": {f"headwater_query_last_batch_timestamp_seconds{QUERY}": "-7200x120"},
    "HeadwaterBatchesSlow": {f"headwater_query_last_batch_duration_seconds{QUERY}": "3400x120"},
    "HeadwaterWatermarkOld": {f"headwater_query_watermark_timestamp_seconds{QUERY}": "-10000x120"},
}
"""What makes rules fire for such a query."""


def alerts_of(case: dict[str, str], expected: list[str]) -> dict[str, Any]:
    """A case for promtool: these alerts and no others fire after 100 minutes."""
    series = [{"series": name, "values": values} for name, values in case.items()]
    count = 'count by (alertname) (ALERTS{alertstate="firing"})'
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
    test = {"expr": count, "eval_time": "100m", "exp_samples": samples}
    return {"interval": "1m", "input_series": series, "promql_expr_test": [test]}


@HAS_PROMTOOL
def test_every_rule_fires_for_its_cause_only(tmp_path: Path) -> None:
    assert list(FIRING) == [rule["alert"] for rule in rules()]
    exporting = {"headwater_build_info": "1x120"}
    cases = [
        alerts_of(case if name == "HeadwaterAbsent" else exporting | case, [name])
        for name, case in FIRING.items()
    ]
    hourly = [alerts_of(exporting | HOURLY_QUIET, [])]
    hourly += [alerts_of(exporting | HOURLY | case, [name]) for name, case in HOURLY_FIRING.items()]
    tests = {
        "rule_files": [str(MONITORING / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [*cases, alerts_of(QUIET, []), *hourly],
    }
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps(tests), encoding="utf-8")
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
