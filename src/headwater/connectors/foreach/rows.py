"""The foreach sink on Spark.

It does not use Spark's foreach: if the computation of the rows fails, Spark calls `close(None)` as after a
success. Here, a batch is one job over its partitions, with the task of `task.py`.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.connectors.connector import BatchWriter
from headwater.connectors.contract import Context
from headwater.connectors.foreach import task
from headwater.connectors.foreach.options import METHODS, ForeachSink
from headwater.connectors.options import class_problems
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.pipelines import CLASS_INIT_FAILED, NOT_SERIALIZABLE
from headwater.spark.frames import pickled_partitions
from headwater.values import Position
from headwater.values.user_frames import user_line

# Finds the part of a user's function or object that cannot be pickled, and the line that creates it.

_DEEPEST = 20


@dataclass(frozen=True)
class FailedRow:
    """The innermost part that cannot be pickled, and the path to it."""

    path: str
    """As the user would write it: `self.connection`, `LOCK`; empty if the object itself cannot be pickled."""
    value: object
    file: str = ""
    """The file in which the first name of the path is assigned, if known."""

    @property
    def type(self) -> str:
        """`sqlite3.Connection`."""
        kind = type(self.value)
        # The modules of a project are loaded under unique names.
        module = re.sub(r"^hw_[0-9a-f]+\.", "", kind.__module__)
        return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def blame(thing: object, fails: Callable[[object], bool]) -> FailedRow:
    """The part of an object that cannot be pickled; `fails` tests a value."""
    path, file, seen = "", _file_of(thing), {id(thing)}
    for _ in range(_DEEPEST):
        parts = (part for part in _parts(thing, path) if id(part[1]) not in seen)
        found = next(((inner, value) for inner, value in parts if fails(value)), None)
        if found is None:
            break
        path, thing = found
        seen.add(id(thing))
        # Names inside a function or class belong to its own file.
        file = _file_of(thing) if isinstance(thing, FunctionType | type) else file
    return FailedRow(path, thing, file)


def line_of(found: FailedRow) -> Position | None:
    """The line that assigns the part, if it is found."""
    lines = linecache.getlines(found.file) if found.file else []
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return None
    first = found.path.partition("[")[0]
    # `self.pool.lock` is created somewhere inside the pool; the user's line is that of `self.pool`.
    names = {first} if "." not in first else {".".join(first.split(".")[:2])}
    if not first.startswith("self."):
        names.add(first.rpartition(".")[2])
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign))
    given = [node.lineno for node in nodes if names & set(_targets(node))]
    return Position(found.file, max(given)) if given else None


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [ast.unparse(target) for target in targets]


def _parts(thing: object, path: str) -> Iterator[tuple[str, object]]:
    """What is pickled with an object, each with its path."""
    if isinstance(thing, FunctionType):
        yield from _of_function(thing)
    elif isinstance(thing, MethodType):
        yield from (("self", thing.__self__), ("", thing.__func__))
    elif isinstance(thing, type):
        yield from ((f"{thing.__name__}.{name}", value) for name, value in vars(thing).items())
    elif isinstance(thing, Mapping):
        yield from ((f"{path}[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from ((f"{path}[{index}]", value) for index, value in enumerate(thing))
    else:
        state = getattr(thing, "__dict__", {})
        yield from ((f"{path or 'self'}.{name}", value) for name, value in state.items())
        yield (path, type(thing))


def _of_function(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Closure values, globals and default values of a function."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not filled yet: nothing is pickled
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    parameters = inspect.signature(function).parameters.values()
    yield from ((each.name, each.default) for each in parameters if each.default is not each.empty)


def _global_names(code: CodeType) -> Iterator[str]:
    """Names that the code and its inner functions look up; attributes among them do no harm."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _file_of(thing: object) -> str:
    if isinstance(thing, FunctionType):
        return thing.__code__.co_filename
    found = thing if isinstance(thing, type) else type(thing)
    # A class in a notebook has no file, and neither has one in C.
    functions = (value for value in vars(found).values() if isinstance(value, FunctionType))
    first = next(functions, None)
    return first.__code__.co_filename if first else ""


# The executors may not have Headwater.
cloudpickle.register_pickle_by_value(task)  # type: ignore[no-untyped-call]

Task = Callable[[int, Iterable[Any]], Iterable[Any]]

_IN_OBJECT = "Create it in `open`, which runs on the executor, and release it in `close`."
_IN_FUNCTION = (
    "Create it inside the function, or in `open` of an object (`object:`). Both run on the executor."
)


def write_stream(writer: DataStreamWriter, options: ForeachSink, context: Context) -> DataStreamWriter:
    """One job for each batch, with its ID as the epoch."""
    return writer.foreachBatch(batch_writer(options, context))


def batch_writer(options: ForeachSink, context: Context) -> BatchWriter:
    """Runs the job of each batch."""
    made = _tasks(options, context)

    def write(batch: DataFrame, batch_id: int) -> None:
        _run(batch, made(batch_id))

    return write


def write_batch(rows: DataFrame, options: ForeachSink, context: Context) -> None:
    """Write all rows, as epoch 0."""
    _run(rows, _tasks(options, context)(0))


def code_problems(options: ForeachSink, context: Context) -> list[Problem]:
    """Problems with the user's function or class, found by the steps of a start."""
    try:
        _tasks(options, context)
    except PipelineError as error:
        return list(error.problems)
    return []


def _tasks(options: ForeachSink, context: Context) -> Callable[[int], Task]:
    """A function from an epoch to its task; the object is created and pickled once, before the start."""
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
    except Exception as error:  # user code can raise anything; it is reported at the user's line
        raised = f"{type(error).__name__}: {error}".rstrip(". ")
        place = user_line(error.__traceback__, context.root) or context.place
        raise PipelineError(CLASS_INIT_FAILED.at(place, name=name, error=raised)) from error


def _pickled(thing: object, name: str, context: Context, hint: str) -> bytes:
    """The bytes for the executors, pickled as PySpark does."""
    try:
        return bytes(cloudpickle.dumps(thing))  # type: ignore[no-untyped-call]
    except Exception as error:  # pickling runs code of any class, which can raise anything
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
