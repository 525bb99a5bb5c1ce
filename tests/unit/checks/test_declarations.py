"""Rules over declarations: columns that they name, secrets that stand in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.checks import Rule, Situation
from headwater.checks.declarations import (
    dedup_without_watermark,
    is_clear_secret,
    secret_plaintext,
    sink_columns,
    watermark_column,
)
from headwater.errors import Problem
from headwater.plan import Graph
from headwater.plan.predicates import columns_of, watermark_problem
from headwater.values import Position
from tests.unit.specs import spec_of


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "abc"),
        ("kafka.ssl.truststore.password", "abc"),
        ("ssl.keyPassword", "abc"),
        ("apiToken", "4f9d"),
        ("api_key", "4f9d"),
        ("client-secret", "4f9d"),
        ("spark.hadoop.fs.s3a.secret.key", "4f9d"),
        ("spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net", "4f9d"),
        ("kafka.sasl.jaas.config", "org.apache.Plain required;"),
        ("url", "postgresql://me:abc@host/shop"),
        ("url", "jdbc:postgresql://host/shop?user=me&password=abc"),
    ],
)
def test_a_secret_is_known_by_its_key_or_its_form(key: str, value: str) -> None:
    assert is_clear_secret(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", ""),
        ("password.file", "/run/secrets/db"),
        ("spark.authenticate.secret", "false"),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "com.amazonaws.Provider"),
        ("kafka.sasl.oauthbearer.token.endpoint.url", "https://login.example.com/token"),
        ("spark.kafka.clusters.a.sasl.token.mechanism", "SCRAM"),
        ("tokenizer", "simple"),
        ("primary_key", "id"),
        ("partition.key", "id"),
        ("path", "/data/me@home/in"),
        ("url", "https://example.com:8443/api"),
        ("mode", "passwords"),
    ],
)
def test_what_only_sounds_like_one(key: str, value: str) -> None:
    assert not is_clear_secret(key, value)


def test_secrets_are_told_at_their_lines_and_never_shown() -> None:
    spec = spec_of(
        """
        name: p
        spark:
          spark.hadoop.fs.s3a.secret.key: abracadabra
          spark.sql.shuffle.partitions: 2
        sources:
          rows:
            connector: rate
            options:
              token: abracadabra
              password: ${secret:WORD}
        sinks:
          out:
            reads: rows
            connector: files
            format: json
            path: s3a://me:abracadabra@bucket/out
            options: {secret: "abracadabra"}
        """
    )
    found = list(secret_plaintext.findings(Situation(spec, Graph.of(spec))))
    assert [
        (each.problem.code, each.problem.params["key"], each.problem.place and each.problem.place.line)
        for each in found
    ] == [
        ("HW-SECRET-PLAINTEXT", "token", 9),
        ("HW-SECRET-PLAINTEXT", "path", 16),
        ("HW-SECRET-PLAINTEXT", "secret", 17),
        ("HW-SECRET-IN-SPARK-SETTINGS", "spark.hadoop.fs.s3a.secret.key", 3),
    ]
    assert {each.severity.value for each in found} == {"warning"}
    assert [each.sink for each in found] == ["", "out", "out", ""]
    assert "abracadabra" not in " ".join(str(each.problem) for each in found)
    assert "`${secret:NAME}`" in found[0].problem.hint


PIPELINE = """
    name: shop
    sources:
      clicks:
        connector: files
        path: {path}
        format: json
        schema: {{id: int, At: timestamp, name: varchar(3), span: {{end: timestamp}}}}
        watermark: {{column: {column}, delay: 1 minute}}
    sinks:
      out:
        reads: CLICKS
        connector: files
        path: /out
        format: {format}
        partition_by: [{by}]
"""


def problems(rule: Rule, root: Path, **keys: str) -> list[Problem]:
    written = {"column": "at", "format": "json", "by": "id", "path": ".", **keys}
    spec = spec_of(PIPELINE.format(**written), root)
    return [finding.problem for finding in rule.findings(Situation(spec, Graph.of(spec)))]


def test_a_watermark_on_no_column(tmp_path: Path) -> None:
    (problem,) = problems(watermark_column, tmp_path, column="att")
    assert (problem.code, problem.place) == ("HW-WATERMARK-COLUMN-NOT-FOUND", Position("pipeline.yml", 8, 25))
    assert problem.params == {"where": "the source `clicks`", "column": "att", "hint": "Did you mean `At`?"}


def test_a_watermark_on_no_time(tmp_path: Path) -> None:
    (problem,) = problems(watermark_column, tmp_path, column="name")
    assert (problem.code, problem.place) == ("HW-WATERMARK-TYPE-INVALID", Position("pipeline.yml", 8, 25))
    assert problem.params == {"where": "the source `clicks`", "column": "name", "type": "string"}


@pytest.mark.parametrize("column", ["at", "AT", "span", "span.end", "'`At`'"])
def test_what_is_right_or_for_spark_to_tell(column: str, tmp_path: Path) -> None:
    assert problems(watermark_column, tmp_path, column=column) == []


def test_a_sink_that_reads_a_source_directly(tmp_path: Path) -> None:
    (problem,) = problems(sink_columns, tmp_path, by="day")
    assert (problem.code, problem.place) == (
        "HW-PARTITION-COLUMN-NOT-FOUND",
        Position("pipeline.yml", 15, 19),
    )
    assert problem.params == {"name": "out", "column": "day", "known": "id, At, name, span"}
    (problem,) = problems(sink_columns, tmp_path, format="csv")
    assert (problem.code, problem.place) == (
        "HW-FILES-CSV-TYPE-UNSUPPORTED",
        Position("pipeline.yml", 14, 13),
    )
    assert problem.params == {"name": "out", "column": "span", "type": "struct<end:timestamp>"}


def test_the_errors_of_all_sinks_are_listed_once() -> None:
    codes = [entry.code for entry in sink_columns.entries]
    assert len(codes) == len(set(codes))
    # Of a database, only what needs no connection.
    assert {code for code in codes if code.startswith("HW-DATABASE-")} == {
        "HW-DATABASE-DRIVER-MISSING",
        "HW-DATABASE-KEY-NOT-FOUND",
        "HW-DATABASE-KEY-REQUIRED",
        "HW-DATABASE-KEY-UNUSED",
        "HW-DATABASE-NAME-INVALID",
        "HW-DATABASE-TYPE-UNSUPPORTED",
    }


def test_folders_add_no_columns(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (problem,) = problems(sink_columns, tmp_path, by="day", path=".")
    assert problem.code == "HW-PARTITION-COLUMN-NOT-FOUND"
    (problem,) = problems(watermark_column, tmp_path, column="day", path=".")
    assert problem.code == "HW-WATERMARK-COLUMN-NOT-FOUND"


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        ("{connector: rate}", {"timestamp": "timestamp", "value": "bigint"}),
        ("{connector: rate_per_batch, rows_per_batch: 1}", {"timestamp": "timestamp", "value": "bigint"}),
        ("{connector: files, path: ., format: text}", {"value": "string"}),
        ("{connector: files, path: ., format: json, schema: {a: char(2)}}", {"a": "string"}),
        ("{connector: files, path: ., format: json, infer_schema: true}", None),
        ("{connector: files, path: 's3://a/b', format: text}", None),
        ("{connector: files, path: ., format: text, options: {basePath: /}}", None),
    ],
)
def test_what_a_source_tells_of_its_columns(source: str, columns: Any, tmp_path: Path) -> None:
    text = f"name: p\nsources: {{a: {source}}}\nsinks: {{out: {{reads: a, connector: noop}}}}"
    assert columns_of(spec_of(text, tmp_path).sources[0]) == columns


def test_a_table_is_named_as_one() -> None:
    text = """
        name: p
        sources: {a: {connector: rate}}
        tables: {few: {sql: SELECT * FROM a, watermark: {column: b, delay: 1s}}}
        sinks: {out: {reads: few, connector: noop}}
    """
    (table,) = spec_of(text).tables
    problem = watermark_problem(table, {"value": "bigint"})
    assert problem is not None
    assert problem.params == {
        "where": "the table `few`",
        "column": "b",
        "hint": "Use one of its columns: value.",
    }
    assert problem.place == Position("pipeline.yml", 3, 58)


def test_distinct_within_a_watermark_needs_one_on_the_source() -> None:
    spec = spec_of(
        """
        name: p
        sources:
          bare: {connector: rate}
          marked: {connector: rate, watermark: {column: timestamp, delay: 1 hour}}
        tables:
          first: {reads: bare, deduplicate: value}
          lacks: {reads: first, deduplicate: value, within: watermark}
          has: {reads: marked, deduplicate: value, within: watermark}
          trusted: SELECT * FROM bare
          unknown: {reads: trusted, deduplicate: value, within: watermark}
        sinks:
          a: {reads: lacks, connector: noop}
          b: {reads: has, connector: noop}
          c: {reads: unknown, connector: noop}
        """
    )
    found = list(dedup_without_watermark.findings(Situation(spec, Graph.of(spec))))
    told = [
        (each.problem.code, each.problem.params["name"], each.problem.place and each.problem.place.line)
        for each in found
    ]
    assert told == [("HW-DEDUP-NEEDS-WATERMARK", "lacks", 7)]
