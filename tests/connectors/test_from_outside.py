"""A connector of another package: the one that docs/contribute/connector-sdk.md builds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.connectors.installing import answer, headwater, install, page_files, python, wheel

ORDERS = [{"id": 1, "cost": 5.0}, {"id": 2, "cost": 50.0}, {"id": 3, "cost": 12.5}]
LARGE = Counter({(2, 50.0): 1, (3, 12.5): 1})
LOADED = """
import json
from headwater.engine.pipeline_file import load
from headwater.connectors import all_connectors

yaml, python = load("pipeline.yml"), load("pipeline.py")
print(json.dumps([yaml == python, yaml.sinks[0].options.prefix, "jsonl" in all_connectors()]))
"""
RUN = """
import json
from pathlib import Path
from headwater.api.batch import run_batch
from headwater.api.check import check
from headwater.api.run import Output, run
from headwater.spark.java import find_java
from headwater.spark.jvm import start_context
from headwater.runtime import RunOptions
from headwater.values import Duration

# Held to the end, so that each call below uses the same JVM.
quiet = {"emit": lambda event: None, "stdout": lambda line: None}
output = Output(**quiet)
jvm = {"java": find_java(), "log_folder": Path("logs"), "stdout": quiet["stdout"]}
start_context({"spark.master": "local[2]"}, **jvm)
until_idle, limit = RunOptions(until_idle=True), Duration.parse("2 minutes")
checked = [[finding.problem.code for finding in check(f).findings] for f in ("pipeline.yml", "pipeline.py")]
(first,) = run(["pipeline.yml"], until_idle, output, limit=limit)
Path("orders/2.jsonl").write_text('{"id": 4, "cost": 11.0}')
(second,) = run(["pipeline.py"], until_idle, output, limit=limit)
run_batch("pipeline.py", RunOptions(), into=Path("results"), stdout=quiet["stdout"])
print(json.dumps({
    "checked": checked,
    "codes": [first.exit_code, second.exit_code],
    "in": [first.queries["large"].rows_in, second.queries["large"].rows_in],
}))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the connector of the page."""
    return install(wheel(page_files(), tmp_path_factory.mktemp("wheels")), tmp_path_factory.mktemp("site"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project of the page, with some orders."""
    files = page_files()
    for name in ("pipeline.yml", "pipeline.py"):
        (tmp_path / name).write_text(files[name], encoding="utf-8")
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.jsonl").write_text("\n".join(map(json.dumps, ORDERS)), encoding="utf-8")
    return tmp_path


def written(folder: Path) -> dict[str, Counter[tuple[int, float]]]:
    """The rows of each file."""
    return {
        file.name: Counter((row["id"], row["cost"]) for row in map(json.loads, file.read_text().splitlines()))
        for file in folder.iterdir()
    }


def test_it_is_found_in_both_forms(site: Path, project: Path) -> None:
    assert answer(python(LOADED, site, project)) == [True, "large", True]


def test_the_offline_check_judges_its_keys(site: Path, project: Path) -> None:
    good = headwater(site, project, "check", "--offline", "--json", "pipeline.yml")
    assert (good.returncode, json.loads(good.stdout)["findings"]) == (0, [])
    text = (project / "pipeline.yml").read_text(encoding="utf-8")
    (project / "pipeline.yml").write_text(text.replace("prefix: large", 'prefx: ""'), encoding="utf-8")
    bad = headwater(site, project, "check", "--offline", "--json", "pipeline.yml")
    (finding,) = json.loads(bad.stdout)["findings"]
    assert (bad.returncode, finding["code"], finding["line"], finding["hint"]) == (
        3,
        "HW-KEY-UNKNOWN",
        7,
        "Did you mean `prefix`?",
    )


def test_a_source_that_is_not_there_is_refused(site: Path, project: Path) -> None:
    (project / "orders" / "1.jsonl").unlink()
    (project / "orders").rmdir()
    done = headwater(site, project, "check", "--offline", "--json", "pipeline.yml")
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == [
        "HW-SOURCE-PATH-NOT-FOUND"
    ]


def test_the_reference_of_connectors_knows_it(site: Path, project: Path) -> None:
    shown = headwater(site, project, "schema", "--connector", "jsonl").stdout
    assert "as a source:" in shown
    assert "as a sink:" in shown
    assert "path (required): " in shown


def test_the_schema_for_editors_knows_it(site: Path, project: Path) -> None:
    schema = json.loads(headwater(site, project, "schema").stdout)
    assert {"source.jsonl", "sink.jsonl"} <= set(schema["$defs"])
    assert {"path", "prefix", "options", "reads"} <= set(schema["$defs"]["sink.jsonl"]["properties"])


def test_without_the_package_the_connector_is_unknown(project: Path, tmp_path: Path) -> None:
    done = headwater(tmp_path, project, "check", "--offline", "--json", "pipeline.yml")
    codes = [finding["code"] for finding in json.loads(done.stdout)["findings"]]
    assert (done.returncode, codes) == (3, ["HW-CONNECTOR-NOT-FOUND"] * 2)


def test_it_runs_as_a_stream_and_as_a_batch(site: Path, project: Path) -> None:
    told = answer(python(RUN, site, project))
    assert told == {"checked": [[], []], "codes": [0, 0], "in": [3, 1]}
    assert written(project / "large") == {"large-0.jsonl": LARGE, "large-1.jsonl": Counter({(4, 11.0): 1})}
    assert written(project / "results" / "large") == {"large.jsonl": LARGE + Counter({(4, 11.0): 1})}


def test_the_tests_of_the_page_pass(site: Path, tmp_path: Path) -> None:
    (tmp_path / "test_jsonl.py").write_text(page_files()["test_jsonl.py"], encoding="utf-8")
    done = python("import pytest, sys; sys.exit(pytest.main(['-q', 'test_jsonl.py']))", site, tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1].split(" in ")[0]) == (0, "2 passed"), done.stdout


@pytest.mark.parametrize("module", ["import no_such_package\n", "CONNECTOR = 3\n", "raise SystemExit(3)\n"])
def test_a_broken_connector_is_named(module: str, project: Path, tmp_path: Path) -> None:
    files = {**page_files(), "headwater_jsonl/__init__.py": module}
    site = install(wheel(files, tmp_path), tmp_path / "site")
    done = headwater(site, project, "check", "--offline", "pipeline.yml")
    assert (done.returncode, done.stdout) == (5, "")
    assert "error HW-CONNECTOR-LOAD-FAILED" in done.stderr
    assert "`jsonl` (headwater_jsonl:CONNECTOR)" in done.stderr
    assert "Traceback" not in done.stderr
