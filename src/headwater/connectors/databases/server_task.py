"""The executor side of the sinks for servers; sent by value, because the executors may not have Headwater.

So the modules for tasks import nothing of Headwater but this one, which they also send. A task loads its rows into
the staging table atomically, with a random number of its own. The driver applies only the rows of the tasks that
Spark counts: what a failed or repeated task has left has other numbers.
"""

from __future__ import annotations

import itertools
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

RESULT = "task bigint, rows bigint, bytes bigint, state string, says string, column int"
"""What a task returns: its number, its rows and their size; or the code and the message of an error; or the number of a
column and what it contains that the database does not store."""
_TYPES = {
    "task": pa.int64(),
    "rows": pa.int64(),
    "bytes": pa.int64(),
    "state": pa.string(),
    "says": pa.string(),
    "column": pa.int32(),
}
NUL, NOT_UTF8 = "a NUL character", "a text that is not valid UTF-8"
NOT_FINITE, NOT_A_YEAR = "NaN or an infinity", "a time outside the years 1 to 9999"

Batches = Iterator[pa.RecordBatch]


class InvalidValue(Exception):
    """A column contains a value that the database does not store."""

    def __init__(self, column: int, what: str) -> None:
        super().__init__(what)
        self.column = column


def loading(
    load: Callable[[int, Batches], int],
    failures: type[Exception],
    explained: Callable[[Any], tuple[str, str]],
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """A function for `mapInArrow` that loads a partition, if it has rows.

    `load` gets the number of the task and returns that of its rows; `explained` is code and message of a failure.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        size = 0

        def measured() -> Batches:
            nonlocal size
            for batch in batches:
                if batch.num_rows:
                    size += batch.nbytes
                    yield batch

        filled = measured()
        first = next(filled, None)
        if first is None:
            return
        task = secrets.randbits(62)
        try:
            rows = load(task, itertools.chain((first,), filled))
        except (failures, InvalidValue) as error:
            # An exception would carry Spark's traceback to people. The rows are read to their end, because Spark
            # stores the state of a batch after the last one.
            for _ in filled:
                continue
            if isinstance(error, InvalidValue):
                yield _result(says=str(error), column=error.column)
            else:
                state, says = explained(error)
                yield _result(state=state, says=says or type(error).__name__)
            return
        yield _result(task=task, rows=rows, bytes=size)

    return run


def refuse_invalid_texts(batch: pa.RecordBatch, *, nul: bool) -> None:
    """InvalidValue if a text is not valid UTF-8, or contains a NUL character where that is not allowed."""
    for number, column in enumerate(batch.columns):
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise InvalidValue(number, NOT_UTF8) from None
        if not nul and pc.any(pc.match_substring(column, "\0")).as_py():
            raise InvalidValue(number, NUL)


@contextmanager
def as_files(contents: Mapping[str, bytes]) -> Iterator[dict[str, str]]:
    """The paths of temporary files with these contents, by the same names."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, name) for name in contents}
        for name, content in contents.items():
            with open(os.open(paths[name], os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(content)
        yield paths


def _result(**values: object) -> pa.RecordBatch:
    found = {"task": 0, "rows": 0, "bytes": 0, **values}
    columns = [pa.array([found.get(name)], type_) for name, type_ in _TYPES.items()]
    return pa.RecordBatch.from_arrays(columns, list(_TYPES))
