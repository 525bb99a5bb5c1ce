"""Settings that freeze at the first start: chosen, shown, set by the user, kept."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.check import check
from headwater.api.explain import explain
from headwater.checkpoint import Checkpoint, LocalStore
from headwater.checks import Severity
from headwater.errors import SetupError
from headwater.values import Position
from tests.pipelines import feed, run_until_idle, write
from tests.processes import headwater

PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

PIPELINE = """
name: counting
SPARK
sources:
  words: {connector: files, path: in, format: json, schema: {word: string}}
tables:
  counts: SELECT word, count(*) AS n FROM words GROUP BY word
sinks:
  counts: {reads: counts, connector: noop, mode: update}
"""


def pipeline(folder: Path, *settings: str) -> Path:
    """The pipeline with these lines under `spark:`."""
    spark = "\n".join(("spark:", *(f"  {setting}" for setting in settings))) if settings else ""
    feed(folder / "in", "1", [{"word": "owl"}])
    return write(folder, PIPELINE.replace("SPARK", spark))


def shown(file: Path, conf: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """What `explain` says: the value and who chose it."""
    (sink,) = explain(file, conf=conf).sinks
    frozen = (PARTITIONS, PROVIDER, CHANGELOG, FORMAT)
    return {each["key"]: (each["value"], each["origin"]) for each in sink.settings if each["key"] in frozen}


def frozen(folder: Path) -> tuple[dict[str, str], int]:
    """What the checkpoint holds: settings of the first batch, and the format of the state."""
    checkpoint = Checkpoint(LocalStore(folder / ".headwater" / "checkpoints" / "counts"))
    first = checkpoint.offsets()[0]
    assert first.batch_id == 0
    (state_format,) = {commit.version for commit in checkpoint.commits()}
    return {key: first.conf[key] for key in (PARTITIONS, PROVIDER)}, state_format


def state_files(folder: Path) -> tuple[set[str], set[str]]:
    """The partitions of the state, and the kinds of the files that its batches wrote."""
    state = folder / ".headwater" / "checkpoints" / "counts" / "state" / "0"
    parts = {path.name for path in state.iterdir() if path.name.isdigit()}
    kinds = {path.suffix for part in parts for path in (state / part).iterdir() if path.name[0].isdigit()}
    return parts, kinds - {".crc"}


@pytest.mark.feature("J1")
def test_good_choices_are_made_shown_settable_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    chosen = pipeline(tmp_path / "chosen")
    # Two cores are configured, so there are two partitions of state.
    choices = {PARTITIONS: "2", PROVIDER: ROCKSDB, CHANGELOG: "true", FORMAT: "2"}
    assert shown(chosen) == {key: (value, "auto") for key, value in choices.items()}
    run_until_idle(chosen)
    assert frozen(tmp_path / "chosen") == ({PARTITIONS: "2", PROVIDER: ROCKSDB}, 2)
    assert state_files(tmp_path / "chosen") == ({"0", "1"}, {".changelog"})

    given = pipeline(tmp_path / "given", f"{PARTITIONS}: 3", f"{PROVIDER}: {IN_MEMORY}", f"{FORMAT}: 1")
    conf = {PARTITIONS: "1"}
    expected = {PARTITIONS: ("1", "config"), PROVIDER: (IN_MEMORY, "config"), FORMAT: ("1", "config")}
    assert shown(given, conf) == {CHANGELOG: ("true", "auto"), **expected}
    run_until_idle(given, conf=conf)
    assert frozen(tmp_path / "given") == ({PARTITIONS: "1", PROVIDER: IN_MEMORY}, 1)
    assert state_files(tmp_path / "given") == ({"0"}, {".delta"})
    whole = pipeline(tmp_path / "whole", f"{CHANGELOG}: false")
    assert shown(whole)[CHANGELOG] == ("false", "config")
    run_until_idle(whole)
    assert state_files(tmp_path / "whole") == ({"0", "1"}, {".zip"})

    pipeline(tmp_path / "chosen", f"{PARTITIONS}: 7", f"{PROVIDER}: {IN_MEMORY}", f"{FORMAT}: 1")
    result = check(chosen)
    assert result.exit_code == 0
    kept = {
        (
            f.problem.code,
            f.severity,
            f.problem.params["key"],
            f.problem.params["kept"],
            f.problem.params["wanted"],
        )
        for f in result.findings
    }
    assert kept == {
        ("HW-SETTING-FROZEN", Severity.WARNING, PARTITIONS, "2", "7"),
        ("HW-SETTING-FROZEN", Severity.WARNING, PROVIDER, ROCKSDB, IN_MEMORY),
        ("HW-SETTING-FROZEN", Severity.WARNING, FORMAT, "2", "1"),
    }
    assert shown(chosen) == {key: (value, "checkpoint") for key, value in choices.items()}
    feed(tmp_path / "chosen" / "in", "2", [{"word": "finch"}])
    assert run_until_idle(chosen).exit_code == 0
    assert frozen(tmp_path / "chosen") == ({PARTITIONS: "2", PROVIDER: ROCKSDB}, 2)
    assert state_files(tmp_path / "chosen") == ({"0", "1"}, {".changelog"})


@pytest.mark.feature("J1", part="what only a new JVM takes")
def test_a_jvm_that_runs_already_keeps_its_own(spark: SparkSession, tmp_path: Path) -> None:
    file = pipeline(tmp_path, "spark.master: local[7]")
    with pytest.raises(SetupError) as caught:
        check(file)
    (problem,) = caught.value.problems
    assert problem.code == "HW-SETTING-TOO-LATE"
    assert problem.params == {"key": "spark.master", "value": "local[7]", "now": "local[2]"}
    assert problem.place == Position(str(file), 4, 17)
    assert check(file, conf={"spark.master": "local[2]"}).exit_code == 0
    assert check(file, master="local[2]").exit_code == 0


TOLD = """
import json
from pathlib import Path


def counts(words):
    settings = dict(words.sparkSession.sparkContext.getConf().getAll())
    Path(__file__).with_name("told.json").write_text(json.dumps(settings))
    return words.groupBy("word").count()
"""


def test_the_command_line_wins_in_a_new_jvm(tmp_path: Path) -> None:
    for name in ("a.jar", "b.jar"):
        zipfile.ZipFile(tmp_path / name, "w").close()
    given = (f"spark.jars: {tmp_path}/a.jar", "spark.master: local[1]", "spark.ui.enabled: false")
    file = pipeline(tmp_path, *given, "spark.ui.port: 0")
    text = file.read_text(encoding="utf-8")
    text = text.replace("SELECT word, count(*) AS n FROM words GROUP BY word", '{python: "told.py:counts"}')
    write(tmp_path, f"jars: [b.jar]\n{text}")
    write(tmp_path, TOLD, "told.py")
    options = ("--conf", "spark.master=local[2]", "--spark-ui")
    with headwater(tmp_path, "run", file.name, "--until-idle", *options) as run:
        assert run.wait() == 0, run.told
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    assert {key: told[key] for key in ("spark.master", "spark.ui.enabled", "spark.jars")} == {
        "spark.master": "local[2]",
        "spark.ui.enabled": "true",
        "spark.jars": f"{tmp_path}/a.jar,{tmp_path}/b.jar",
    }
