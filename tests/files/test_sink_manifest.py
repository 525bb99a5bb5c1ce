"""A manifest for other engines, and small files that become larger ones, in every format."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.orc  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from tests.files.test_files_sink import SCHEMA, written
from tests.pipelines import feed, run_until_idle, with_avro, write

KEYS = {
    "avro": "format: avro",
    "csv": "format: csv, header: true, delimiter: ';'",
    "json": "format: json, compression: gzip",
    "orc": "format: orc",
    "parquet": "format: parquet, partition_by: [kind], compression: zstd",
    "text": "format: text, partition_by: kind",
    "xml": "format: xml, row_tag: bird",
}
BATCHES = 4


def pipeline() -> str:
    lines = [
        "name: birds",
        "sources:",
        f"  birds: {{connector: files, path: in, format: json, schema: '{SCHEMA}', max_files_per_batch: 1}}",
        "tables:",
        "  lines: SELECT kind, id || ' ' || name AS line FROM birds",
        "sinks:",
    ]
    for format, keys in KEYS.items():
        table = "lines" if format == "text" else "birds"
        keys += ", manifest: true, compaction: {min_files: 2}"
        lines.append(f"  {format}_files: {{reads: {table}, connector: files, path: out/{format}, {keys}}}")
    return "\n".join(lines)


def rows_in(file: Path, format: str, spark: SparkSession) -> Iterator[tuple[str, str, str]]:
    """The rows of one file, read without Spark's log (and but for avro without Spark)."""
    kind = file.parent.name.removeprefix("kind=")
    match format:
        case "avro":
            yield from (
                (str(r.id), r.name, r.kind) for r in spark.read.format("avro").load(str(file)).collect()
            )
        case "csv":
            with file.open(newline="") as lines:
                yield from ((r["id"], r["name"], r["kind"]) for r in csv.DictReader(lines, delimiter=";"))
        case "json":
            rows = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
            yield from ((str(r["id"]), r["name"], r["kind"]) for r in rows)
        case "orc":
            rows = pyarrow.orc.read_table(file).to_pylist()
            yield from ((str(r["id"]), r["name"], r["kind"]) for r in rows)
        case "parquet":
            rows = pyarrow.parquet.ParquetFile(file).read().to_pylist()
            yield from ((str(r["id"]), r["name"], kind) for r in rows)
        case "text":
            yield from ((*line.split(" "), kind) for line in file.read_text().splitlines())  # type: ignore[misc]
        case "xml":
            birds = ElementTree.parse(file).getroot()
            yield from tuple(tuple(str(b.findtext(k)) for k in ("id", "name", "kind")) for b in birds)  # type: ignore[misc]


def listed(folder: Path) -> list[Path]:
    """The files that the manifest names; both forms of it name the same, and their sizes are right."""
    manifest: dict[str, Any] = json.loads((folder / "_headwater/manifest.json").read_text())
    assert (manifest["version"], manifest["batch"], manifest["format"]) == (1, BATCHES - 1, folder.name)
    paths = [entry["path"] for entry in manifest["files"]]
    assert (folder / "_headwater/files.txt").read_text().splitlines() == paths
    files = [folder / path for path in paths]
    assert [file.stat().st_size for file in files] == [entry["size"] for entry in manifest["files"]]
    return files


@pytest.mark.feature("D2.2")
def test_readers_through_spark_and_through_the_manifest_see_each_row_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = write(tmp_path, pipeline())
    expected: Counter[tuple[str, ...]] = Counter()
    for number in range(BATCHES):
        rows = [{"id": number, "kind": "a", "name": "ow;l"}, {"id": 7, "kind": "b", "name": 'ti"t'}]
        expected.update((str(row["id"]), str(row["name"]), str(row["kind"])) for row in rows)
        feed(tmp_path / "in", str(number), rows, at=1_700_000_000 + number)
    result = run_until_idle(file, conf={"spark.sql.streaming.fileSink.log.compactInterval": "2"})
    assert result.exit_code == 0

    with_avro(spark)
    for format in KEYS:
        folder = tmp_path / "out" / format
        assert written(spark, folder, format) == expected, format
        files = listed(folder)
        assert Counter(row for each in files for row in rows_in(each, format, spark)) == expected, format
        # What was rewritten is there for a while, for readers that began before.
        compacted = [each for each in files if each.name.startswith("part-compacted-")]
        assert compacted, format
        here = {path for path in folder.rglob("part-*") if not path.name.endswith(".crc")}
        assert len(here) > len(files)

    # A manifest that nobody keeps up to date any more would mislead.
    write(tmp_path, pipeline().replace("manifest: true", "manifest: false"))
    run_until_idle(file)
    assert not list(tmp_path.glob("out/*/_headwater/manifest.json"))
    for format in KEYS:
        assert written(spark, tmp_path / "out" / format, format) == expected
