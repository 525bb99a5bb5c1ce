"""Writes are refused to the function of a table, and to nobody else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark.interception import WRITING_METHODS, WriteRefused, WritingMethod, without_writes


def write_json(writer: Mock) -> None:
    DataFrameWriter.json(writer, "folder")


def test_a_write_and_a_start_are_refused() -> None:
    writer = Mock()
    with pytest.raises(WriteRefused) as write, without_writes():
        write_json(writer)
    with pytest.raises(WriteRefused) as start, without_writes():
        DataStreamWriter.start(writer)
    assert (write.value.call, start.value.call) == ("`write.json()`", "`writeStream.start()`")
    assert writer.mock_calls == []


@pytest.mark.parametrize(
    "method", WRITING_METHODS, ids=lambda method: f"{method.kind.__name__}.{method.name}"
)
def test_everything_of_the_table_is_refused(method: WritingMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "headwater.spark.interception.writing_statement", lambda spark, text: ("DropTable", "")
    )
    with pytest.raises(WriteRefused) as refused, without_writes():
        getattr(method.kind, method.name)(Mock(isStreaming=False), "rows")
    assert refused.value.call == method.call


def test_the_write_of_another_thread_is_untouched() -> None:
    writer = Mock()
    with ThreadPoolExecutor(1) as threads, without_writes():
        threads.submit(write_json, writer).result()
    writer._jwrite.json.assert_called_once_with("folder")


def test_afterwards_everything_writes_again() -> None:
    writer = Mock()
    with pytest.raises(WriteRefused), without_writes():
        write_json(writer)
    write_json(writer)
    writer._jwrite.json.assert_called_once_with("folder")


def test_a_refusal_that_the_function_hides_is_told() -> None:
    def hide() -> None:
        try:
            write_json(Mock())
        except WriteRefused as error:
            raise ValueError("something else") from error

    with pytest.raises(WriteRefused), without_writes():
        hide()


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), without_writes():
        1 / 0  # noqa: B018
