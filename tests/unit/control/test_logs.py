"""Lines of log files, while they grow, are rotated, or do not exist yet."""

from __future__ import annotations

import threading
from pathlib import Path

from headwater.control.logs import follow


def stopped() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def test_the_last_lines_of_each_file(tmp_path: Path) -> None:
    one, two = tmp_path / "spark.log", tmp_path / "failures.log"
    one.write_text("a\nb\nc\n")
    two.write_text("d\n")
    assert list(follow([one, two, tmp_path / "none"], 2, stopped())) == [
        ("spark.log", "b"),
        ("spark.log", "c"),
        ("failures.log", "d"),
    ]
    assert list(follow([one], 0, stopped())) == []


def test_a_large_file_is_read_from_near_its_end(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    file.write_text("".join(f"{number:09}\n" for number in range(200_000)))
    lines = [line for _, line in follow([file], 200_000, stopped())]
    assert (len(lines), lines[0], lines[-1]) == (99_999, "000100001", "000199999")


def test_added_lines_a_rotated_file_and_a_new_one(tmp_path: Path) -> None:
    file, new, stop = tmp_path / "spark.log", tmp_path / "failures.log", threading.Event()
    file.write_text("a\n")
    lines = follow([file, new], 10, stop)
    assert next(lines) == ("spark.log", "a")
    with file.open("a") as stream:
        stream.write("b\nc")
    assert next(lines) == ("spark.log", "b")
    with file.open("a") as stream:
        stream.write("c\n")
    assert next(lines) == ("spark.log", "cc")
    file.rename(tmp_path / "spark.log.1")
    file.write_text("d\n")
    assert next(lines) == ("spark.log", "d")
    new.write_text("e\n")
    assert next(lines) == ("failures.log", "e")
    stop.set()
    assert list(lines) == []
