"""The guarantee of every sink through a full check, and by running batches again what it says is true."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.api.check import check
from headwater.api.results import CheckResult
from headwater.checks.guarantees import Guarantee, guarantee_offline
from headwater.cli.render import show_check
from headwater.engine.pipeline_file import load
from headwater.plan import Graph
from tests.pipelines import feed, rows_of, run_until_idle, write

PIPELINE = """
name: visits
spark: {spark.sql.shuffle.partitions: 40}
functions:
  pick: {python: "own.py:pick", returns: int}
sources:
  visits: {connector: files, path: in, format: json, schema: {id: int, at: timestamp}, max_files_per_batch: 1}
  places: {connector: files, path: [in, names], format: json, schema: {id: int}}
  lines: {connector: socket, host: localhost, port: 9}
  feed: {connector: python, class: "own.py:Feed"}
  names: {connector: files, path: names, format: json, schema: {id: int, name: string}, static: true}
  prices:
    {connector: files, path: names, format: json, schema: {id: int, name: string}, static: true,
     refresh: every batch}
tables:
  seeded: SELECT id, rand(42) AS x FROM visits
  clock: SELECT id, now() AS x FROM visits
  moment: SELECT id, current_timestamp() AS x, current_date() AS y FROM visits
  named: SELECT id, input_file_name() AS x FROM visits
  picked: SELECT pick(id) AS x FROM visits
  marked: {python: "own.py:marked"}
  salted: SELECT floor(rand() * 3) AS salt, count(*) AS n FROM visits GROUP BY 1
  latest: SELECT id, last(at) AS at FROM visits GROUP BY id
  listed: SELECT id, collect_list(at) AS at FROM visits GROUP BY id
  few: SELECT id FROM visits LIMIT 3
  joined: SELECT v.id, n.name FROM visits v JOIN names n ON v.id = n.id
  priced: SELECT v.id, p.name FROM visits v JOIN prices p ON v.id = p.id
  crossed: SELECT v.id, n.name FROM visits v CROSS JOIN names n
  ranged: SELECT v.id, n.name FROM visits v JOIN names n ON v.id > n.id
  counted: SELECT v.id, n.most FROM visits v CROSS JOIN (SELECT max(id) AS most FROM names) n
  known: SELECT id FROM visits v WHERE EXISTS (SELECT 1 FROM names n WHERE n.id < v.id)
  both: SELECT id FROM visits WHERE id > 1 UNION ALL SELECT id FROM visits WHERE id < 1
  pairs: SELECT a.id FROM visits a JOIN visits b ON a.id = b.id
  spread:
    sql: SELECT id, timestampadd(SECOND, cast(rand() * 60 AS int), at) AS at FROM visits
    watermark: {column: at, delay: 1 minute}
  windows: SELECT window.start AS at, count(*) AS n FROM spread GROUP BY window(at, '1 minute')
sinks:
"""
OWN = """
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.functions import udf


class Reader(SimpleDataSourceStreamReader):
    def initialOffset(self):
        return {"at": 0}

    def read(self, start):
        return iter([]), start

    def readBetweenOffsets(self, start, end):
        return iter([])


class Feed(DataSource):
    @classmethod
    def name(cls):
        return "feed"

    def schema(self):
        return "id int"

    def simpleStreamReader(self, schema):
        return Reader()


def pick(value):
    return value


@udf("int")
def chosen(value):
    return value


def marked(visits: DataFrame) -> DataFrame:
    return visits.select(chosen.asNondeterministic()("id").alias("x"))


def write(batch, batch_id):
    pass
"""
FILES = "connector: files, path: out/{name}, format: json"
USER = 'connector: foreach_batch, function: "own.py:write"'

# What each sink reads and where it writes, its guarantee, the part that lowers it, and what is found.
SINKS: dict[str, tuple[str, str, str, str, set[str]]] = {
    "plain": ("visits", FILES, "exactly-once", "", set()),
    "gathered": ("places", FILES, "exactly-once", "", set()),
    "shown": ("visits", "connector: console", "at-least-once", "sink", set()),
    "kept": ("visits", "connector: memory", "exactly-once", "", set()),
    "measured": ("seeded", "connector: noop", "at-least-once", "query", set()),
    "own": ("visits", USER, "at-least-once", "sink", set()),
    "lost": ("lines", FILES, "at-most-once", "source", set()),
    "fed": ("feed", FILES, "unknown", "source", set()),
    "seeded": ("seeded", FILES, "at-least-once", "query", {"HW-NONDETERMINISTIC"}),
    "clock": ("clock", FILES, "at-least-once", "query", {"HW-NONDETERMINISTIC"}),
    "moment": ("moment", FILES, "exactly-once", "", set()),
    "named": ("named", FILES, "exactly-once", "", set()),
    "picked": ("picked", FILES, "exactly-once", "", set()),
    "marked": ("marked", FILES, "at-least-once", "query", {"HW-NONDETERMINISTIC"}),
    "salted": ("salted", "connector: noop, mode: update", "at-least-once", "query", {"HW-STATE-PARTITIONS"}),
    "latest": (
        "latest",
        "connector: noop, mode: update",
        "at-least-once",
        "query",
        {"HW-ORDER-DEPENDENT", "HW-STATE-PARTITIONS"},
    ),
    "listed": ("listed", "connector: noop, mode: update", "exactly-once", "", {"HW-STATE-PARTITIONS"}),
    "few": ("few", FILES, "at-least-once", "query", {"HW-STATE-PARTITIONS"}),
    "joined": ("joined", FILES, "exactly-once", "", set()),
    "priced": ("priced", FILES, "at-least-once", "source", set()),
    "crossed": ("crossed", FILES, "exactly-once", "", {"HW-CROSS-JOIN-UNBOUNDED"}),
    "ranged": ("ranged", FILES, "exactly-once", "", {"HW-RANGE-JOIN-SLOW"}),
    "counted": ("counted", FILES, "exactly-once", "", set()),
    "known": ("known", FILES, "exactly-once", "", set()),
    "both": ("both", FILES, "exactly-once", "", {"HW-READ-TWICE"}),
    "pairs": ("pairs", FILES, "exactly-once", "", {"HW-READ-TWICE", "HW-STATE-PARTITIONS"}),
    "windows": (
        "windows",
        FILES,
        "at-least-once",
        "query",
        {"HW-NONDETERMINISTIC-EVENT-TIME", "HW-STATE-PARTITIONS"},
    ),
}
MINE = {
    "HW-NONDETERMINISTIC", "HW-NONDETERMINISTIC-STATE", "HW-NONDETERMINISTIC-EVENT-TIME",
    "HW-ORDER-DEPENDENT", "HW-READ-TWICE", "HW-CROSS-JOIN-UNBOUNDED", "HW-RANGE-JOIN-SLOW",
    "HW-STATE-PARTITIONS", "HW-BACKLOG-UNLIMITED", "HW-BACKLOG-SLOW", "HW-SECRET-PLAINTEXT",
    "HW-SECRET-IN-SPARK-SETTINGS",
}  # fmt: skip


@pytest.fixture(scope="module")
def file(context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One pipeline with every kind of source, query and sink."""
    folder = tmp_path_factory.mktemp("guarantees")
    feed(folder / "in", "a", [{"id": 1, "at": "2026-01-01T12:00:00Z"}])
    feed(folder / "names", "a", [{"id": 1, "name": "one"}])
    write(folder, OWN, "own.py")
    lines = [
        f"  {name}: {{reads: {reads}, {to.replace('{name}', name)}}}\n"
        for name, (reads, to, *_) in SINKS.items()
    ]
    return write(folder, PIPELINE + "".join(lines))


@pytest.fixture(scope="module")
def checked(file: Path) -> CheckResult:
    return check(file)


def guarantee(checked: CheckResult, sink: str) -> Guarantee:
    (told,) = (each.outline for each in checked.sinks if each.name == sink)
    assert told, [str(finding.problem) for finding in checked.of_sink(sink)]
    return told.guarantee


@pytest.mark.feature("H3", part="every kind of source, query and sink")
@pytest.mark.parametrize("sink", SINKS)
def test_the_guarantee_of_a_sink_and_its_reason(checked: CheckResult, sink: str) -> None:
    *_, level, part, codes = SINKS[sink]
    told = guarantee(checked, sink)
    assert (told.level.value, {each.part.value for each in told.lowering}) == (level, {part} - {""})
    assert all(each.why and each.raised_by for each in told.lowering)
    assert {each.problem.code for each in checked.of_sink(sink)} & MINE == codes


def test_findings_stand_where_the_cause_stands(checked: CheckResult, file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    places = {
        each.problem.code: lines[each.problem.place.line - 1].strip()
        for each in checked.findings
        if each.problem.code in MINE and each.problem.place
    }
    assert places["HW-CROSS-JOIN-UNBOUNDED"].startswith("crossed: SELECT")
    assert places["HW-RANGE-JOIN-SLOW"].startswith("ranged: SELECT")
    assert places["HW-ORDER-DEPENDENT"].startswith("latest: SELECT")
    assert places["HW-NONDETERMINISTIC-EVENT-TIME"].startswith("sql: SELECT id, timestampadd")
    assert places["HW-READ-TWICE"].startswith("visits:")
    assert places["HW-STATE-PARTITIONS"].startswith("spark:")
    errors = {each.problem.code for each in checked.errors}
    assert "HW-NONDETERMINISTIC-EVENT-TIME" in errors


def test_offline_never_contradicts_the_full_check(checked: CheckResult, file: Path) -> None:
    spec = load(file)
    graph = Graph.of(spec)
    for sink in spec.sinks:
        offline = guarantee_offline(spec, graph, sink).level.value
        assert offline in ("unknown", guarantee(checked, sink.name).level.value), sink.name
        assert offline != "exactly-once"
    assert guarantee_offline(spec, graph, next(s for s in spec.sinks if s.name == "own")).level.value == (
        "at-least-once"
    )


REPLAYED = """
name: replays
sources:
  visits: {connector: files, path: in, format: json, schema: {id: int}}
tables:
  seeded: SELECT id, rand(42) AS x FROM visits
  clock: SELECT id, now() AS x FROM visits
  moment: SELECT id, current_timestamp() AS x FROM visits
sinks:
  files: {reads: visits, connector: files, path: out/files, format: json}
  own: {reads: visits, connector: foreach_batch, function: "own.py:plain"}
  seeded: {reads: seeded, connector: foreach_batch, function: "own.py:seeded"}
  clock: {reads: clock, connector: foreach_batch, function: "own.py:clock"}
  moment: {reads: moment, connector: foreach_batch, function: "own.py:moment"}
"""
KEEPING = """
import json
from pathlib import Path


def _keep(name, batch, batch_id):
    rows = [[batch_id, *row] for row in batch.collect()]
    with (Path(__file__).parent / f"{name}.jsonl").open("a") as file:
        file.writelines(json.dumps(row, default=str) + "\\\\n" for row in rows)
"""


def kept(folder: Path, name: str) -> Counter[tuple[Any, ...]]:
    lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return Counter(tuple(json.loads(line)) for line in lines)


@pytest.mark.feature("H3")
def test_running_a_batch_again_shows_what_the_check_says(context: SparkContext, tmp_path: Path) -> None:
    """Files have each row once; a user's function gets it twice, with the same values or with others."""
    names = ("plain", "seeded", "clock", "moment")
    functions = [
        f"\n\ndef {each}(batch, batch_id):\n    _keep('{each}', batch, batch_id)\n" for each in names
    ]
    write(tmp_path, KEEPING.replace("\\\\", "\\") + "".join(functions), "own.py")
    feed(tmp_path / "in", "a", [{"id": 1}, {"id": 2}])
    file = write(tmp_path, REPLAYED)
    told = {each.name: each.outline.guarantee for each in check(file).sinks if each.outline}
    assert {name: each.level.value for name, each in told.items()} == {
        "files": "exactly-once",
        **dict.fromkeys(("own", "seeded", "clock", "moment"), "at-least-once"),
    }
    # What a random number or a clock takes away, the source of the rows and the time of the batch do not.
    lowering = {name: {part.part.value for part in each.lowering} for name, each in told.items()}
    assert lowering == {
        "files": set(),
        "own": {"sink"},
        "seeded": {"query", "sink"},
        "clock": {"query", "sink"},
        "moment": {"sink"},
    }

    assert run_until_idle(file).exit_code == 0
    for sink in told:
        commits = tmp_path / ".headwater" / "checkpoints" / sink / "commits"
        for commit in (commits / "0", commits / ".0.crc"):
            commit.unlink(missing_ok=True)
    assert run_until_idle(file).exit_code == 0

    spark = SparkSession(context).newSession()
    assert rows_of(spark, tmp_path / "out" / "files", schema="id int") == Counter({(1,): 1, (2,): 1})
    assert kept(tmp_path, "plain") == Counter({(0, 1): 2, (0, 2): 2})
    assert sorted(kept(tmp_path, "moment").values()) == [2, 2]
    assert sorted(kept(tmp_path, "seeded").values()) == [1, 1, 1, 1]
    assert sorted(kept(tmp_path, "clock").values()) == [1, 1, 1, 1]


@pytest.mark.feature("H3", part="what `check` prints")
def test_the_check_prints_it_for_every_sink(
    file: Path, checked: CheckResult, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = {each["name"]: each["guarantee"]["level"] for each in checked.to_json()["sinks"]}
    assert levels == {name: each[2] for name, each in SINKS.items()}
    # What would not start guarantees nothing.
    show_check(checked, verbose=False)
    shown = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("  delivery guarantee: ")
    ]
    started = {sink for sink in SINKS if not any(each.is_error for each in checked.of_sink(sink))}
    assert len(shown) == len(started) > 20
    offline = {
        each["name"]: each["guarantee"]["level"] for each in check(file, offline=True).to_json()["sinks"]
    }
    assert set(offline.values()) == {"unknown", "at-least-once", "at-most-once"}
    assert offline["shown"] == "at-least-once"
