"""Local paths on a real cluster whose workers see only some of them: the rest is refused before a start.

Every case uses one Spark application, since its start costs more than all of them. The workers' Python has
no Headwater.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.contract import ROOT
from tests.cluster import WORKERS, Cluster
from tests.pipelines import feed, write
from tests.processes import headwater, program
from tests.spark.test_cluster import bare_python

SECONDS = 400.0
pytestmark = pytest.mark.timeout(1_800)

PIPELINE = """
name: orders
sources:
  orders: {connector: files, path: orders, format: json, schema: {id: bigint, shop: bigint}}
  shops: {connector: files, path: SHOPS, format: json, schema: {shop: bigint, town: string}, static: true}
tables:
  located: SELECT o.id, s.town FROM orders o JOIN shops s USING (shop)
  counted: SELECT shop, count(*) AS n FROM orders GROUP BY shop
sinks:
  located: {reads: located, connector: files, path: out, format: json}
  counted: {reads: counted, connector: noop, mode: update}
"""
# No executor has to see the run folder where a query has no state.
STATELESS = """
name: stateless
run_dir: FOLDER
sources:
  orders: {connector: files, path: "or*rs/*.json", format: json, schema: {id: bigint}}
sinks:
  copied: {reads: orders, connector: files, path: copied, format: json}
"""
SINKS = """
name: sinks
sources:
  rows: {connector: rate}
  lists: {connector: files, path: "HIDDEN/*.list", format: text}
  one: {connector: files, path: HIDDEN/one.list, format: text}
sinks:
  read_only: {reads: rows, connector: files, path: READ_ONLY/out, format: json}
  overlaid: {reads: rows, connector: files, path: OVERLAID/out, format: json}
  remote: {reads: rows, connector: files, path: "hdfs://nowhere:1/out", format: json}
  lists: {reads: lists, connector: noop}
  one: {reads: one, connector: noop}
"""
DRIVER = """
import json
import sys
from pathlib import Path

from headwater.api.batch import run_batch
from headwater.api.check import check
from headwater.spark.java import find_java
from headwater.spark.jvm import start_context
from headwater.errors import HeadwaterError
from headwater.runtime import RunOptions
from tests.pipelines import run_until_idle

told, settings, cases = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
context = start_context(settings, java=find_java(), log_folder=told.parent, stdout=lambda line: None).context


def done(how, file, into):
    if how == "check":
        return [finding.problem for finding in check(file).errors]
    if how == "without Python":
        usual, context.pythonExec = context.pythonExec, "/nowhere/python"
        found = done("check", file, into)
        context.pythonExec = usual
        return found
    try:
        if how == "run":
            assert run_until_idle(Path(file)).exit_code == 0
        else:
            run_batch(file, RunOptions(), into=Path(into), stdout=lambda line: None)
    except HeadwaterError as error:
        return error.problems
    return []


results = {name: [problem.to_json() for problem in done(*case)] for name, case in cases.items()}
told.write_text(json.dumps(results))
context.stop()
"""


@dataclass(frozen=True)
class Told:
    """What each case said, and where it was."""

    cluster: Cluster
    shared: Path
    cases: dict[str, list[dict[str, Any]]]

    def of(self, case: str) -> set[tuple[str, str]]:
        return {(problem["code"], problem["message"]) for problem in self.cases[case]}


def make_project(folder: Path, shops: Path | None = None) -> Path:
    """The pipeline's file, beside its data."""
    feed(folder / "orders", "1", [{"id": number, "shop": number % 2} for number in range(4)])
    feed(shops or folder / "shops", "1", [{"shop": 0, "town": "Oslo"}, {"shop": 1, "town": "Rome"}])
    return write(folder, PIPELINE.replace("SHOPS", str(shops or "shops")))


@pytest.fixture(scope="module")
def told(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Told:
    if cluster.not_apart:
        pytest.skip(f"the workers can't have mounts of their own here: {cluster.not_apart}")
    shared = tmp_path_factory.mktemp("shared")
    for name in ("a", "b"):
        (cluster.hidden / f"{name}.list").write_text(name)
    (cluster.hidden / "one.list").write_text("one")
    places = {
        "HIDDEN": cluster.hidden,
        "READ_ONLY": cluster.read_only,
        "OVERLAID": cluster.overlaid,
        "FOLDER": cluster.hidden / "run",
    }
    texts = {"sinks.yml": SINKS, "stateless.yml": STATELESS}
    for name, text in texts.items():
        for key, place in places.items():
            text = text.replace(key, str(place))
        write(shared, text, name)
    hidden = str(make_project(cluster.hidden / "project"))
    half = str(make_project(cluster.half_hidden / "project"))
    cases = {
        "hidden": ("check", hidden, ""),
        "half hidden": ("run", half, ""),
        "batch": ("batch", str(shared / "pipeline.yml"), str(cluster.hidden / "results")),
        "sinks": ("check", str(shared / "sinks.yml"), ""),
        "without Python": ("without Python", half, ""),
        # The executors read the copies in the run folder, and these they see.
        "shared": ("run", str(make_project(shared, cluster.hidden / "shops")), ""),
        "stateless": ("run", str(shared / "stateless.yml"), ""),
    }
    script, output = write(shared, DRIVER, "driver.py"), shared / "told.json"
    settings = {**cluster.settings, "spark.master": cluster.master, "spark.scheduler.mode": "FAIR"}
    command = (sys.executable, script, output, json.dumps(settings), json.dumps(cases))
    python = str(bare_python(shared))
    with program(shared, *command, PYTHONPATH=str(ROOT), PYSPARK_PYTHON=python) as driver:
        assert driver.wait(SECONDS) == 0, driver.told
    return Told(cluster, shared, json.loads(output.read_text(encoding="utf-8")))


def not_shared(use: str, path: Path, *hosts: str) -> tuple[str, str]:
    seen = f"a local path that not all executors share with the driver: {', '.join(hosts)}."
    return "HW-PATH-NOT-SHARED", f"{use} {path}, {seen}"


def test_a_check_names_every_path_that_no_executor_sees(told: Told) -> None:
    project, hosts = told.cluster.hidden / "project", [f"worker-{n} (no such directory)" for n in (1, 2)]
    assert told.of("hidden") == {
        not_shared("Query `counted` stores its state in", project / ".headwater/checkpoints/counted", *hosts),
        not_shared("Sink `located` writes to", project / "out", *hosts),
        not_shared("Source `orders` reads", project / "orders", *hosts),
        not_shared(
            "Source `shops` stores copies of its files in", project / ".headwater/static/shops", *hosts
        ),
    }
    assert {path.name for path in project.iterdir()} == {"orders", "shops", "pipeline.yml"}


def test_one_worker_that_does_not_see_them_is_enough(told: Told) -> None:
    project, host = told.cluster.half_hidden / "project", "worker-2 (no such directory)"
    found = told.of("half hidden")
    assert not_shared("Sink `located` writes to", project / "out", host) in found
    assert len(found) == 4
    assert all(sentence.endswith(f": {host}.") for _, sentence in found)
    remedies = {problem["hint"] for problem in told.cases["half hidden"]}
    assert {"set `path` to", "set `run_dir` to"} == {
        part for part in ("set `path` to", "set `run_dir` to") for text in remedies if part in text
    }


def test_a_refused_start_has_written_neither_checkpoint_nor_sink(told: Told) -> None:
    project = told.cluster.half_hidden / "project"
    assert not (project / "out").exists()
    assert [path for path in (project / ".headwater/checkpoints").iterdir() if path.is_dir()] == []
    assert not (project / ".headwater/static").exists()
    assert [path.name for path in (project / "orders").iterdir()] == ["1.json"]


def test_the_results_of_a_batch_run(told: Told) -> None:
    results, cluster = told.cluster.hidden / "results", told.cluster
    hosts = [f"worker-{n} (no such directory)" for n in (1, 2)]
    assert told.of("batch") == {
        not_shared("Sink `located` writes to", results / "located", *hosts),
        # A batch run reads static files where they are.
        not_shared("Source `shops` reads", cluster.hidden / "shops", *hosts),
    }
    assert any("set `--output-dir` to" in problem["hint"] for problem in told.cases["batch"])
    assert not results.exists()


def test_a_directory_of_the_same_name_is_another_one(told: Told) -> None:
    hidden = told.cluster.hidden
    hosts = [f"worker-{n} (a different directory of the same name)" for n in (1, 2)]
    assert not_shared("Source `lists` reads", hidden, *hosts) in told.of("sinks")
    hosts = [f"worker-{n} (no such file)" for n in (1, 2)]
    assert not_shared("Source `one` reads", hidden / "one.list", *hosts) in told.of("sinks")


def test_executors_have_to_write_where_the_driver_sees_it(told: Told) -> None:
    cluster, found = told.cluster, told.of("sinks")
    path, says = cluster.read_only / "out", "worker-2 (Read-only file system)"
    assert (
        "HW-PATH-NOT-WRITABLE",
        f"Sink `read_only` writes to {path}, where not all executors can create files: {says}.",
    ) in found
    unseen = "worker-2 (the driver does not see the files that it creates there)"
    assert not_shared("Sink `overlaid` writes to", cluster.overlaid / "out", unseen) in found
    assert not any("hdfs:" in sentence for _, sentence in found)


def test_no_probe_file_is_left_on_any_machine(told: Told) -> None:
    cluster = told.cluster
    seen = [cluster.as_seen_by(number, cluster.folder) for number in range(1, WORKERS + 1)]
    for folder in (told.shared, cluster.folder, *seen):
        assert list(folder.rglob(".headwater-probe-*")) == []


def test_executors_that_can_not_answer(told: Told) -> None:
    (problem,) = [
        each for each in told.cases["without Python"] if each["code"] == "HW-EXECUTORS-CHECK-FAILED"
    ]
    assert "/nowhere/python" in problem["message"]
    assert "No such file or directory" in problem["message"]


def test_what_executors_share_runs(told: Told) -> None:
    assert told.cases["shared"] == told.cases["stateless"] == []
    assert _rows(told.shared / "out") == Counter(
        {(0, "Oslo"): 1, (1, "Rome"): 1, (2, "Oslo"): 1, (3, "Rome"): 1}
    )
    assert _rows(told.shared / "copied") == Counter({(number,): 1 for number in range(4)})
    assert (told.shared / ".headwater/checkpoints/counted/state").is_dir()
    assert (told.cluster.hidden / "run/checkpoints/copied/commits/0").is_file()


def _rows(folder: Path) -> Counter[tuple[Any, ...]]:
    files = [file for file in folder.iterdir() if file.suffix == ".json"]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return Counter(tuple(json.loads(line).values()) for line in lines)


@pytest.mark.soak
def test_a_cluster_without_room_for_an_executor(cluster: Cluster, tmp_path: Path) -> None:
    """A start ends by itself, and has said what it waits for; no task ever ran."""
    file = make_project(tmp_path)
    wait = "spark.scheduler.maxRegisteredResourcesWaitingTime"
    settings = {**cluster.settings, "spark.executor.memory": "100g", wait: "1500ms"}
    conf = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    with headwater(tmp_path, "run", file, "--master", cluster.master, "--json", *conf) as run:
        assert run.wait(SECONDS) == 3, run.told
    notices = [event["text"] for event in run.events if event.get("event") == "said"]
    assert any("waiting for answers, 0 registered so far" in notice for notice in notices), run.told
    assert "HW-EXECUTORS-MISSING" in run.told
    assert "provided no executor within 15 s" in run.told
    assert not (tmp_path / "out").exists()
