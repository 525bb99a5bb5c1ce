"""The executor side of a foreach sink; sent by value, because the executors may not have Headwater.

So this module imports nothing of Headwater. A task runs these steps:

    writer = a copy of the user's object, unpickled in this task
    writer.open(partition_id, epoch_id)     False: no row is processed
    writer.process(row)                     for each row of the partition
    writer.close(error)                     after every open that returned; None after a success
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

_END_OF_DATA = -1


class RowsCutOff(Exception):
    """The rows of a partition are incomplete, because their computation failed or was stopped."""


class WholePartition:
    """Reads the rows that Spark sends to a task, and distinguishes their end from a closed connection.

    Spark's readers treat both as the end. An object that commits in `close` would then commit the first rows
    of a partition whose computation failed.
    """

    def load_stream(self, stream: BinaryIO) -> Iterator[Any]:
        """Every row; RowsCutOff if the end marker is missing."""
        while (length := _number(stream)) != _END_OF_DATA:
            data = stream.read(length)
            if len(data) < length:
                raise RowsCutOff("the computation of the rows failed or was stopped")
            yield from pickle.loads(data)


def _number(stream: BinaryIO) -> int:
    data = stream.read(4)
    if len(data) < 4:
        raise RowsCutOff("the computation of the rows failed or was stopped")
    return int(struct.unpack("!i", data)[0])


def with_function(pickled: bytes) -> Callable[[int, Iterable[Any]], Iterator[Any]]:
    """A task that calls a function with each row."""

    def run(partition_id: int, rows: Iterable[Any]) -> Iterator[Any]:
        function = pickle.loads(pickled)
        for row in rows:
            function(row)
        return iter(())

    return run


def with_object(pickled: bytes, epoch_id: int) -> Callable[[int, Iterable[Any]], Iterator[Any]]:
    """A task that opens, uses and closes a copy of an object."""

    def run(partition_id: int, rows: Iterable[Any]) -> Iterator[Any]:
        writer = pickle.loads(pickled)
        wanted = writer.open(partition_id, epoch_id) if hasattr(writer, "open") else True
        error: BaseException | None = None
        try:
            if wanted is None:
                raise TypeError("open() returned None; return True, or False to skip the rows")
            for row in rows:
                # Skipped rows are still consumed, because state is committed after the last row.
                if wanted:
                    writer.process(row)
        except BaseException as raised:
            error = raised
            raise
        finally:
            _close(writer, error)
        return iter(())

    return run


def _close(writer: Any, error: BaseException | None) -> None:
    """Close after success or failure; Spark gets the first error."""
    if not hasattr(writer, "close"):
        return
    try:
        writer.close(error)
    except Exception as second:
        if error is None:
            raise
        raise error from second
