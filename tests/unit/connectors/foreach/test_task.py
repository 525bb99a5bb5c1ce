"""The life of an object in a task, and the difference between the end of the rows and of the connection."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

import pytest

from headwater.connectors.foreach.task import RowsCutOff, WholePartition, with_function, with_object

calls: list[Any] = []


class Writer:
    opens: Any = True

    def open(self, partition_id: int, epoch_id: int) -> Any:
        calls.append(("open", partition_id, epoch_id))
        if isinstance(self.opens, Exception):
            raise self.opens
        return self.opens

    def process(self, row: Any) -> None:
        calls.append(row)
        if isinstance(row, BaseException):
            raise row

    def close(self, error: BaseException | None) -> None:
        calls.append(("close", type(error)))


class Skips(Writer):
    opens = False


class Forgets(Writer):
    opens = None


class Broken(Writer):
    opens = OSError("no place")


class FailsTwice(Writer):
    def close(self, error: BaseException | None) -> None:
        raise OSError("close")


class Bare:
    def process(self, row: Any) -> None:
        calls.append(row)


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def run(writer: object, rows: list[Any]) -> list[Any]:
    assert list(with_object(pickle.dumps(writer), 7)(3, iter(rows))) == []
    return calls


def test_all_goes_well() -> None:
    assert run(Writer(), [1, 2]) == [("open", 3, 7), 1, 2, ("close", type(None))]


def test_only_process_has_to_be_there() -> None:
    assert run(Bare(), [1, 2]) == [1, 2]


def test_false_skips_but_takes_the_rows() -> None:
    rows = iter([1, 2])
    list(with_object(pickle.dumps(Skips()), 7)(3, rows))
    assert calls == [("open", 3, 7), ("close", type(None))]
    assert list(rows) == []


def test_no_answer_is_no_false() -> None:
    with pytest.raises(TypeError, match=r"open\(\) returned None"):
        run(Forgets(), [1])
    assert calls == [("open", 3, 7), ("close", TypeError)]


def test_an_open_that_failed_is_not_closed() -> None:
    with pytest.raises(OSError, match="no place"):
        run(Broken(), [1])
    assert calls == [("open", 3, 7)]


@pytest.mark.parametrize("error", [ValueError("bad row"), SystemExit(3)])
def test_close_gets_the_error(error: BaseException) -> None:
    with pytest.raises(type(error)):
        run(Writer(), [1, error, 2])
    assert calls[-1] == ("close", type(error))


def test_the_first_failure_is_told() -> None:
    with pytest.raises(ValueError, match="bad row"):
        run(FailsTwice(), [ValueError("bad row")])
    with pytest.raises(OSError, match="close"):
        run(FailsTwice(), [])


def note(row: Any) -> None:
    calls.append(row)


def test_a_function_gets_each_row() -> None:
    assert list(with_function(pickle.dumps(note))(0, iter([1, 2]))) == []
    assert calls == [1, 2]


def sent(*parts: list[Any], end: bytes) -> io.BytesIO:
    packed = [pickle.dumps(part) for part in parts]
    return io.BytesIO(b"".join(struct.pack("!i", len(part)) + part for part in packed) + end)


def test_the_mark_of_the_end_ends_the_rows() -> None:
    assert list(WholePartition().load_stream(sent([1, 2], [3], end=struct.pack("!i", -1)))) == [1, 2, 3]


@pytest.mark.parametrize("end", [b"", b"\0\0", struct.pack("!i", 9) + b"half"])
def test_rows_without_it_are_cut_off(end: bytes) -> None:
    with pytest.raises(RowsCutOff):
        list(WholePartition().load_stream(sent([1, 2], end=end)))
