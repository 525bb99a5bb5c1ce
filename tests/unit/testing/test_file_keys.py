"""Files of rows: what is read, and where each mistake is told."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from headwater.errors import PipelineError, Problem
from headwater.testing.file_keys import read_rows
from headwater.testing.steps import Row
from headwater.testing.values import LocalDay, read_row
from headwater.values import Position


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def placed(rows: list[Row]) -> list[tuple[int, int, Any]]:
    return [(row.place.line, row.place.column, row.values) for row in rows if row.place]


def refused(file: Path) -> Problem:
    with pytest.raises(PipelineError) as caught:
        read_rows(file)
    (problem,) = caught.value.problems
    assert problem.message
    assert problem.hint
    return problem


def told(problem: Problem) -> tuple[str, int, int]:
    assert problem.place is not None
    return problem.code, problem.place.line, problem.place.column


def test_json_lines(tmp_path: Path) -> None:
    file = write(tmp_path, "more.jsonl", '\ufeff{"word": "owl", "n": 1}\r\n\n  ["12:00", null]\n')
    rows = read_rows(file)
    assert placed(rows) == [(1, 1, {"word": "owl", "n": 1}), (3, 3, ["12:00", None])]
    assert rows[0].place == Position(str(file), 1, 1)


def test_a_json_list(tmp_path: Path) -> None:
    file = write(tmp_path, "more.JSON", '[\n  {"word": "owl"},\n  {"word": "cat",\n   "n": 2}, [3]]\n')
    assert placed(read_rows(file)) == [
        (2, 3, {"word": "owl"}),
        (3, 3, {"word": "cat", "n": 2}),
        (4, 13, [3]),
    ]


@pytest.mark.parametrize(
    ("name", "content"), [("a.json", " [ ] "), ("a.jsonl", "\n"), ("a.csv", "at,word\n")]
)
def test_files_without_rows(tmp_path: Path, name: str, content: str) -> None:
    assert read_rows(write(tmp_path, name, content)) == []


def test_csv_cells_are_what_their_columns_are(tmp_path: Path) -> None:
    file = write(tmp_path, "more.csv", 'at, word ,n\n12:07,007,1\n\n,"two\nlines, ""x""",-2\n2026-01-02,,3\n')
    schema = StructType().add("at", TimestampType()).add("word", StringType()).add("n", LongType())
    reading = LocalDay(date(2026, 1, 1), ZoneInfo("UTC"))
    rows = read_rows(file)
    assert [row.place and row.place.line for row in rows] == [2, 4, 6]
    assert [read_row(row.values, schema, reading) for row in rows] == [
        {"at": datetime(2026, 1, 1, 12, 7, tzinfo=UTC), "word": "007", "n": 1},
        {"at": None, "word": 'two\nlines, "x"', "n": -2},
        {"at": datetime(2026, 1, 2, tzinfo=UTC), "word": None, "n": 3},
    ]


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": }\n', ("HW-ROWS-JSON-INVALID", 2, 7)),
        ("a.jsonl", '{"a": 1} {"a": 2}\n', ("HW-ROWS-JSON-INVALID", 1, 10)),
        ("a.jsonl", "\n[1,\n2]\n", ("HW-ROWS-JSON-INVALID", 2, 4)),
        ("a.jsonl", '{"a": 1, "a": 2}\n', ("HW-ROWS-KEY-DUPLICATE", 1, 1)),
        ("a.jsonl", '{"a": 1}\n"owl"\n', ("HW-ROWS-ROW-INVALID", 2, 1)),
        ("a.jsonl", "[" * 100_000, ("HW-ROWS-JSON-INVALID", 1, 1)),
        ("a.jsonl", "[" + "1" * 5000 + "]", ("HW-ROWS-JSON-INVALID", 1, 1)),
        ("a.json", "", ("HW-ROWS-JSON-INVALID", 1, 1)),
        ("a.json", '{"a": 1}', ("HW-ROWS-LIST-INVALID", 1, 1)),
        ("a.json", '[{"a": 1}\n {"a": 2}]', ("HW-ROWS-JSON-INVALID", 2, 2)),
        ("a.json", '[{"a": 1},\n ]', ("HW-ROWS-JSON-INVALID", 2, 2)),
        ("a.json", '[{"a": 1}] 2', ("HW-ROWS-JSON-INVALID", 1, 12)),
        ("a.json", '[{"a": 1},\n 3]', ("HW-ROWS-ROW-INVALID", 2, 2)),
        ("a.json", b"[\n\xff]", ("HW-FILE-ENCODING-INVALID", 2, 1)),
        ("a.csv", "", ("HW-ROWS-HEADER-MISSING", 1, 1)),
        ("a.csv", "\na,b,a\n", ("HW-ROWS-HEADER-INVALID", 2, 1)),
        ("a.csv", "a,,b\n", ("HW-ROWS-HEADER-INVALID", 1, 1)),
        ("a.csv", "a,b\n1,2\n3\n", ("HW-ROWS-CELLS-MISMATCH", 3, 1)),
        ("a.csv", 'a,b\n1,2\n"x,2\n', ("HW-ROWS-CSV-INVALID", 3, 1)),
        ("a.csv", 'a,b\n"x"y,2\n', ("HW-ROWS-CSV-INVALID", 2, 1)),
    ],
)
def test_a_mistake_is_told_at_its_place(
    tmp_path: Path, name: str, content: str | bytes, wanted: tuple[str, int, int]
) -> None:
    file = write(tmp_path, name, content)
    problem = refused(file)
    assert told(problem) == wanted
    assert problem.place is not None
    assert problem.place.file == str(file)


@pytest.mark.parametrize("name", ["rows.parquet", "rows"])
def test_other_endings_are_refused(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path / name).code == "HW-ROWS-FILE-UNSUPPORTED"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, "more.jsonl", "")
    problem = refused(tmp_path / "mor.jsonl")
    assert problem.code == "HW-FILE-NOT-FOUND"
    assert problem.params["hint"] == f"Did you mean {tmp_path / 'more.jsonl'}?"
    assert refused(tmp_path / "gone" / "more.jsonl").code == "HW-FILE-NOT-FOUND"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").mkdir()
    assert refused(tmp_path / "rows.csv").code == "HW-FILE-IS-DIRECTORY"
