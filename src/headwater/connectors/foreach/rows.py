"""The foreach sink on Spark.

Not Spark's own foreach: when the computation of the rows fails halfway, that one calls `close(None)`, as if
all were well. Here a batch is one job over its partitions, with the task of `task.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.connectors.contract import Context
from headwater.connectors.foreach import task
from headwater.connectors.foreach.connector import METHODS, ForeachSink
from headwater.connectors.foreach.unpicklable import blame, line_of
from headwater.connectors.user_classes import class_problems
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.user_code import CLASS_NOT_MADE, NOT_SERIALIZABLE
from headwater.spark.frames import pickled_partitions
from headwater.values.user_frames import user_line

# The executors may have no Headwater.
cloudpickle.register_pickle_by_value(task)  # type: ignore[no-untyped-call]

Task = Callable[[int, Iterable[Any]], Iterable[Any]]

_IN_OBJECT = "Make it in `open`, which is called on the executor, and let go of it in `close`."
_IN_FUNCTION = (
    "Make it inside the function, or in `open` of an object (`object:`), which are called on the executor."
)


def write_stream(writer: DataStreamWriter, options: ForeachSink, context: Context) -> DataStreamWriter:
    """One job for each batch, with its number as the epoch."""
    made = _tasks(options, context)

    def write(batch: DataFrame, batch_id: int) -> None:
        _run(batch, made(batch_id))

    return writer.foreachBatch(write)


def write_batch(rows: DataFrame, options: ForeachSink, context: Context) -> None:
    """All rows, as epoch 0."""
    _run(rows, _tasks(options, context)(0))


def code_problems(options: ForeachSink, context: Context) -> list[Problem]:
    """What is wrong with the user's function or class, found by doing what a start does."""
    try:
        _tasks(options, context)
    except PipelineError as error:
        return list(error.problems)
    return []


def _tasks(options: ForeachSink, context: Context) -> Callable[[int], Task]:
    """From the number of an epoch to its task; the object is made and pickled once, before the start."""
    if options.function is not None:
        function = context.load(options.function)
        pickled = _pickled(function, options.function.name, context, _IN_FUNCTION)
        return lambda epoch_id: task.with_function(pickled)
    assert options.object is not None, "there is a function or an object"
    found = context.load(options.object)
    problems = list(class_problems(options.object, found, METHODS, context.place))
    if problems:
        raise PipelineError.of(problems)
    made = _made(found, options.object.name, context)
    pickled = _pickled(made, options.object.name, context, _IN_OBJECT)
    return lambda epoch_id: task.with_object(pickled, epoch_id)


def _made(found: Callable[[], Any], name: str, context: Context) -> Any:
    try:
        return found()
    except Exception as error:  # the user's own code: whatever it raises is told at the user's line
        raised = f"{type(error).__name__}: {error}".rstrip(". ")
        place = user_line(error.__traceback__, context.root) or context.place
        raise PipelineError(CLASS_NOT_MADE.at(place, name=name, error=raised)) from error


def _pickled(thing: object, name: str, context: Context, hint: str) -> bytes:
    """The bytes that go to the executors, as PySpark would make them."""
    try:
        return bytes(cloudpickle.dumps(thing))  # type: ignore[no-untyped-call]
    except Exception as error:  # pickling calls code of any class: whatever it raises, it can't be sent
        found = blame(thing, _fails)
        part = f"`{found.path}`" if found.path else "it"
        place = line_of(found) or context.place
        problem = NOT_SERIALIZABLE.at(place, name=name, part=part, type=found.type, hint=hint)
        raise PipelineError(problem) from error


def _fails(thing: object) -> bool:
    try:
        cloudpickle.dumps(thing)  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001 - the question is just whether it raises
        return True
    return False


def _run(rows: DataFrame, call: Task) -> None:
    """Run the task over every partition, in one job."""
    pickled_partitions(rows, task.WholePartition()).mapPartitionsWithIndex(call).count()
