"""Rows of text files: quotes and line breaks in csv, bytes that are not UTF-8, and keys that JSON repeats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipelines import capture, captured, run_until_idle, write

KEPT = """
name: kept
sources:
  json: {connector: files, path: json, format: json, schema: {id: int, s: string}, bad_rows: keep}
  csv: {connector: files, path: csv, format: csv, schema: {id: int, s: string}, bad_rows: keep}
  xml: {connector: files, path: xml, format: xml, row_tag: rów, schema: {id: int, s: string}, bad_rows: keep}
  text: {connector: files, path: text, format: text, bad_rows: keep}
  lines: {connector: files, path: lines, format: csv, multi_line: true, schema: {id: int, s: string},
          bad_rows: keep}
  quoted: {connector: files, path: quoted, format: csv, schema: {id: int, s: string}}
  escaped: {connector: files, path: escaped, format: csv, schema: {id: int, s: string},
            options: {escape: '\\'}}
tables:
  kept: |
    SELECT 'json' AS source, id, s, _bad_reason AS why FROM json
    UNION ALL SELECT 'csv', id, s, _bad_reason FROM csv UNION ALL SELECT 'xml', id, s, _bad_reason FROM xml
    UNION ALL SELECT 'text', 0, value, _bad_reason FROM text
    UNION ALL SELECT 'lines', id, s, _bad_reason FROM lines
    UNION ALL SELECT 'escaped', id, s, NULL FROM escaped
sinks:
  kept: {reads: kept, connector: foreach_batch, function: "capture.py:kept"}
  quoted: {reads: quoted, connector: files, path: out, format: csv}
"""
RFC = '1,"a ""b"", c"\n'
GOOD, BAD = "a\ufffdb".encode(), b"a\xffb"
FILES = {
    "json": b'{"id":1,"s":"%b"}\n{"id":2,"s":"%b"}\n{"id":3,"id":4,"s":"x","s":"y"}\n' % (GOOD, BAD),
    "csv": b"1,%b\n2,%b\n" % (GOOD, BAD) + RFC.replace("1", "3").encode(),
    "xml": "<rows><rów><id>1</id><s>%s</s></rów><rów><id>2</id><s>%s</s></rów></rows>".encode()
    .replace(b"%s", GOOD, 1)
    .replace(b"%s", BAD),
    "text": b"%b\n%b\n" % (GOOD, BAD),
    "lines": b'1,"a\nb"\n2,%b\n3,%b\n' % (GOOD, BAD),
    "quoted": RFC.encode(),
    "escaped": b'1,"a \\"b\\""\n',
}


def put_bytes(folder: Path, **files: bytes) -> None:
    for name, content in files.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "1.txt").write_bytes(content)


@pytest.mark.feature("B1.1", part="quotes and bytes that are not UTF-8")
def test_text_is_read_as_it_is_or_is_bad(spark: SparkSession, tmp_path: Path) -> None:
    capture(tmp_path, "kept")
    put_bytes(tmp_path, **FILES)
    run_until_idle(write(tmp_path, KEPT))
    good, bad = "a\ufffdb", "malformed"
    found: Counter[tuple[Any, ...]] = sum(captured(tmp_path, "kept"), Counter())
    assert found == Counter(
        [
            ("json", 1, good, None),
            ("json", None, None, bad),
            # Of a key that is repeated the last value counts.
            ("json", 4, "y", None),
            ("csv", 1, good, None),
            ("csv", None, None, bad),
            ("csv", 3, 'a "b", c', None),
            ("xml", 1, good, None),
            ("xml", None, None, bad),
            ("text", 0, good, None),
            ("text", 0, None, bad),
            ("lines", 1, "a\nb", None),
            # Where Spark's reader finds the rows, the character itself can't be told from a bad byte.
            ("lines", 2, good, bad),
            ("lines", 3, good, bad),
            ("escaped", 1, 'a "b"', None),
        ]
    )
    assert [each.read_text() for each in (tmp_path / "out").glob("*.csv")] == [RFC]


FAILING = """
name: failing
sources:
  csv: {connector: files, path: csv, format: csv, schema: {id: int, s: string}}
  text: {connector: files, path: text, format: text}
  json: {connector: files, path: json, format: json, schema: {id: int, s: string}}
  ascii: {connector: files, path: ascii, format: json, multi_line: true, encoding: US-ASCII,
          schema: {s: array<string>}}
  xml: {connector: files, path: xml, format: xml, row_tag: rów, schema: {id: int, s: string}}
sinks:
  csv: {reads: csv, connector: noop}
  text: {reads: text, connector: noop}
  json: {reads: json, connector: noop}
  ascii: {reads: ascii, connector: noop}
  xml: {reads: xml, connector: noop}
"""


@pytest.mark.feature("B1.1", part="bytes that are not UTF-8 fail a query")
def test_bytes_that_are_no_text_fail_the_query_by_default(spark: SparkSession, tmp_path: Path) -> None:
    put_bytes(tmp_path, **{name: FILES[name] for name in ("csv", "text", "json", "xml")})
    put_bytes(tmp_path, ascii=b'{"s":["%b"]}' % BAD)
    result = run_until_idle(write(tmp_path, FAILING))
    problems: dict[str, Any] = {name: query.problem for name, query in result.queries.items()}
    assert {name: problem.code for name, problem in problems.items()} == {
        "csv": "HW-BAD-ROW",
        "text": "HW-BAD-ROW",
        "json": "HW-ROW-MALFORMED",
        "ascii": "HW-BAD-ROW",
        "xml": "HW-DATA-FILE-UNREADABLE",
    }
    assert problems["text"].params["reason"] == "malformed, not valid text"
    assert str(problems["text"].params["where"]).endswith("/text/1.txt")
