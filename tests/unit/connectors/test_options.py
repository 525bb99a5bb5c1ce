"""The keys of each built-in connector."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from headwater.connectors.files import FilesSink, FilesSource
from headwater.connectors.foreach import ForeachBatchSink, ForeachSink
from headwater.connectors.options import plain
from headwater.connectors.trial import ConsoleSink, MemorySink, NoopSink, RatePerBatchSource, RateSource
from headwater.loaders.keys import known_keys
from headwater.spec import FunctionRef, Schema
from headwater.values import Duration, secret

CSV: dict[str, Any] = {"path": "in", "format": "csv", "schema": "id int"}


def read(model: type[BaseModel], root: Path = Path("/project"), **written: Any) -> Any:
    return model.model_validate(written, context={"root": root})


def refusal(model: type[BaseModel], **written: Any) -> str:
    with pytest.raises(ValidationError) as error:
        read(model, **written)
    (only,) = error.value.errors()
    return only["msg"]


@pytest.mark.parametrize(
    ("model", "written"),
    [
        (RateSource, {}),
        (RatePerBatchSource, {"rows_per_batch": 3}),
        (ConsoleSink, {}),
        (NoopSink, {}),
        (FilesSource, CSV),
        (FilesSink, {"path": "out", "format": "json"}),
    ],
)
def test_options_go_to_spark_as_text(model: type[BaseModel], written: dict[str, Any]) -> None:
    options = read(model, **written, options={"a": 1, "b": True, "c": 1.5, "d": "x"})
    assert plain(options) == {"a": "1", "b": "true", "c": "1.5", "d": "x"}
    assert plain(read(model, **written)) == {}


@pytest.mark.parametrize("model", [ForeachBatchSink, ForeachSink, MemorySink])
def test_options_that_spark_would_not_look_at_are_no_key(model: type[BaseModel]) -> None:
    assert "options" not in known_keys(model)
    assert {"options"} < set(known_keys(FilesSink))


def test_a_secret_stays_hidden_until_it_goes_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    options = read(RateSource, options={"key": secret("KEY")})
    monkeypatch.setenv("KEY", "hush")
    assert plain(options) == {"key": "hush"}
    assert "hush" not in f"{options!r} {options.model_dump_json()}"


def test_files_are_read_from_one_path_or_several(tmp_path: Path) -> None:
    assert read(FilesSource, **CSV).path == ("/project/in",)
    assert read(FilesSource, **{**CSV, "path": ["in", "/x/*.csv"]}).path == ("/project/in", "/x/*.csv")


def test_a_schema_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.ddl").write_text("id int,\n at timestamp\n", encoding="utf-8")
    (tmp_path / "a.json").write_text('{"fields": [{"name": "id", "type": "integer"}]}', encoding="utf-8")
    ddl = read(FilesSource, tmp_path, path="in", format="json", schema="a.ddl")
    json = read(FilesSource, tmp_path, path="in", format="json", schema=" a.json ")
    assert (ddl.columns, json.columns) == (Schema.of("id int, at timestamp"), Schema.of("id int"))


def test_text_files_need_no_schema() -> None:
    assert read(FilesSource, path="in", format="text").columns is None


@pytest.mark.parametrize(
    ("written", "size"),
    [(1000, 1000), ("1000", 1000), ("512 MB", 512 * 2**20), ("10gb", 10 * 2**30), ("1 b", 1), ("2TB", 2**41)],
)
def test_sizes(written: object, size: int) -> None:
    assert read(FilesSource, **CSV, max_bytes_per_batch=written).max_bytes_per_batch == size


@pytest.mark.parametrize("key", ["header", "delimiter", "multi_line", "row_tag", "encoding", "date_format"])
def test_a_key_that_would_do_nothing_is_refused(key: str) -> None:
    value: object = True if key in ("header", "multi_line") else "x"
    assert f"`{key}` is not supported with format `parquet`" in refusal(
        FilesSource, path="in", format="parquet", schema="id int", **{key: value}
    )


def test_a_file_sink() -> None:
    sink = read(FilesSink, path="./out/", format="csv", partition_by="day", header=True)
    assert (sink.path, sink.partition_by) == ("/project/out", ("day",))
    assert read(FilesSink, path="out", format="csv", partition_by=["a", "b"]).partition_by == ("a", "b")
    assert "`header` is not supported with format `json`" in refusal(
        FilesSink, path="out", format="json", header=True
    )


@pytest.mark.parametrize(
    ("start", "milliseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        (datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), 2000),
    ],
)
def test_the_start_of_event_time(start: object, milliseconds: int) -> None:
    source = read(RatePerBatchSource, rows_per_batch=1, start_timestamp=start)
    assert (source.start_ms, source.advance_per_batch) == (milliseconds, Duration(1000))


def test_ramp_up_is_in_whole_seconds() -> None:
    assert read(RateSource, ramp_up_time="2 minutes").ramp_up_time == Duration(120_000)
    assert "whole seconds" in refusal(RateSource, ramp_up_time="1500 ms")


def test_a_function_by_name_and_at_hand() -> None:
    def write(batch: object, batch_id: int) -> None: ...

    named = read(ForeachBatchSink, function="lib/out.py:Writer.write")
    at_hand = read(ForeachBatchSink, function=write)
    assert named.function == FunctionRef("/project/lib/out.py", "Writer.write")
    assert (at_hand.function.function, at_hand.function.parameters) == (write, ("batch", "batch_id"))


@pytest.mark.parametrize(
    "written", ["out.py", "out:write", ":write", "out.py:", "out.py:a b", 3, print, None]
)
def test_what_names_no_function(written: object) -> None:
    assert "function" in refusal(ForeachBatchSink, function=written)


@pytest.mark.parametrize("limit", ["max_files_per_batch", "max_bytes_per_batch"])
def test_an_age_that_spark_would_not_look_at_is_refused(limit: str) -> None:
    keys: dict[str, Any] = {"latest_first": True, "max_file_age": "1 hour", limit: 3}
    assert f"`max_file_age` has no effect with `latest_first` and `{limit}`" in refusal(
        FilesSource, **CSV, **keys
    )
    for one in keys:
        read(FilesSource, **CSV, **{key: value for key, value in keys.items() if key != one})


@pytest.mark.parametrize(
    ("format", "codec"),
    [
        ("json", "gzip"),
        ("csv", "GZIP"),
        ("text", "org.apache.hadoop.io.compress.GzipCodec"),
        ("orc", "zlib"),
        ("parquet", "lz4_raw"),
        ("avro", "zstandard"),
    ],
)
def test_every_format_has_its_codecs(format: str, codec: str) -> None:
    assert read(FilesSink, path="out", format=format, compression=codec).compression == codec


@pytest.mark.parametrize(
    ("format", "codec", "says"),
    [
        ("json", "zstd", "use one of none, uncompressed, bzip2, deflate, gzip, lz4, snappy"),
        ("xml", "gz", "did you mean `gzip`?"),
        ("parquet", "org.apache.hadoop.io.compress.GzipCodec", "use one of none"),
        ("orc", "gzip", "use one of none"),
        ("avro", "none", "use one of uncompressed"),
        ("avro", "zstd", "did you mean `zstandard`?"),
    ],
)
def test_a_codec_that_a_format_does_not_have_is_refused(format: str, codec: str, says: str) -> None:
    said = refusal(FilesSink, path="out", format=format, compression=codec)
    assert f"format `{format}` does not support `compression: {codec}`; {says}" in said
