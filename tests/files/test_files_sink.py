"""Files as a sink: every format, partitioned folders, each row once for Spark's readers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.check import check
from headwater.checkpoint import LocalStore, SinkLog
from headwater.checks import Severity
from tests.pipelines import feed, run_until_idle, with_avro, write

KEYS = {
    "avro": "format: avro, compression: deflate",
    "csv": "format: csv, header: true, delimiter: ';'",
    "json": "format: json, compression: gzip",
    "orc": "format: orc",
    "parquet": "format: parquet, partition_by: [kind], compression: zstd",
    "text": "format: text, partition_by: kind",
    "xml": "format: xml, row_tag: bird",
}
READ_OPTIONS = {"csv": {"escape": '"', "header": "true", "sep": ";"}, "xml": {"rowTag": "bird"}}
SCHEMA = "id int, kind string, name string"


def pipeline(large: str = "SELECT id, kind, name FROM birds WHERE id > 0", mode: str = "append") -> str:
    lines = [
        "name: birds",
        "sources:",
        f"  birds: {{connector: files, path: in, format: json, schema: '{SCHEMA}', max_files_per_batch: 1}}",
        "tables:",
        f"  large: {large}",
        "  lines: SELECT kind, id || ' ' || name AS line FROM birds WHERE id > 0",
        "sinks:",
    ]
    for format, keys in KEYS.items():
        table = "lines" if format == "text" else "large"
        lines.append(f"  {format}_files: {{reads: {table}, connector: files, path: out/{format}, {keys}}}")
    return "\n".join(lines).replace("format: json, compression", f"mode: {mode}, format: json, compression")


def written(spark: SparkSession, folder: Path, format: str) -> Counter[tuple[Any, ...]]:
    """The rows as Spark reads them, in the columns id, kind, name."""
    reader = spark.read.format(format).options(**READ_OPTIONS.get(format, {}))
    if format == "text":
        return Counter((*row.value.split(" "), row.kind) for row in reader.load(str(folder)).collect())
    return Counter((str(r.id), r.name, r.kind) for r in reader.schema(SCHEMA).load(str(folder)).collect())


def crash(project: Path, sink: str, *, before_the_sink_committed: bool) -> None:
    """Leave the last batch as a crash would: planned, its files there, not committed."""
    commits = project / ".headwater" / "checkpoints" / f"{sink}_files" / "commits"
    records = [commits, project / "out" / sink / "_spark_metadata"]
    for folder in records if before_the_sink_committed else records[:1]:
        (folder / "1").unlink()
        (folder / ".1.crc").unlink(missing_ok=True)


@pytest.mark.feature("D2.1")
def test_every_format_has_each_row_once_after_a_crash_and_keeps_its_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    file, out = write(tmp_path, pipeline()), tmp_path / "out"
    feed(tmp_path / "in", "1", [{"id": 1, "kind": "a", "name": "owl"}, {"id": 2, "kind": "b", "name": "tit"}])
    feed(tmp_path / "in", "2", [{"id": 2, "kind": "b", "name": "tit"}, {"id": 0, "kind": "c", "name": "egg"}])
    run_until_idle(file)
    for format in KEYS:
        crash(tmp_path, format, before_the_sink_committed=format in ("orc", "parquet", "text"))
    run_until_idle(file)

    with_avro(spark)
    expected = Counter({("1", "owl", "a"): 1, ("2", "tit", "b"): 2})
    for format in KEYS:
        assert written(spark, out / format, format) == expected
    assert {path.parent.name for path in out.glob("text/*/*.txt")} == {"kind=a", "kind=b"}
    assert {str(path.parent.relative_to(out)) for path in out.glob("parquet/*/*.zstd.parquet")} == {
        "parquet/kind=a",
        "parquet/kind=b",
    }
    # The file that the crashed batch left behind is there, and no reader of Spark's sees it.
    listed = SinkLog(LocalStore(out / "orc")).files()
    assert len(list(out.glob("orc/*.orc"))) == len(listed) + 1 == 3

    result = check(write(tmp_path, pipeline(mode="update"), "update.yml"))
    assert [(f.problem.code, f.problem.params["mode"], f.sink) for f in result.errors] == [
        ("HW-SINK-MODE-UNSUPPORTED", "update", "json_files")
    ]
    judge_other_schemas(tmp_path)


def judge_other_schemas(project: Path) -> None:
    """Another type is refused before the start, another column is told."""
    other = check(write(project, pipeline("SELECT CAST(id AS bigint) AS id, kind, name FROM birds")))
    assert {(f.problem.code, f.sink) for f in other.errors} == {
        ("HW-SINK-TYPES-CHANGED", f"{format}_files") for format in KEYS if format != "text"
    }
    wider = check(write(project, pipeline("SELECT *, true AS seen FROM birds WHERE id > 0")))
    assert {(f.problem.code, f.severity, f.sink) for f in wider.findings} == {
        ("HW-SINK-COLUMNS-CHANGED", Severity.WARNING, f"{format}_files")
        for format in KEYS
        if format != "text"
    }
    # A new pipeline that writes where another one wrote is held to what the files say.
    elsewhere = pipeline("SELECT CAST(id AS string) AS id, kind, name FROM birds").replace(
        "name: birds", "name: others\nrun_dir: others", 1
    )
    strangers = check(write(project, elsewhere, "others.yml"))
    told = {("HW-SINK-TYPES-CHANGED", f"{format}_files") for format in ("avro", "orc", "parquet")}
    # Its first batches would be passed over, since the folders have batches of these numbers.
    told |= {("HW-SINK-AHEAD-OF-CHECKPOINT", f"{format}_files") for format in KEYS}
    assert {(f.problem.code, f.sink) for f in strangers.errors} == told
