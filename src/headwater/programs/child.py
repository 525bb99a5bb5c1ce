"""The process that runs a checked script and intercepts all starts and writes."""

from __future__ import annotations

import builtins
import json
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark
from pyspark.sql import DataFrameReader, DataFrameWriter

from headwater.engine.plain_facts import WriterSettings, plain_facts
from headwater.loaders.python_form import Declarations
from headwater.plan.predicates import connector_of_format
from headwater.programs.capture import FinishedQuery, catch_sessions, catch_streams, watch_options
from headwater.programs.outside import catch_outside
from headwater.programs.query_start import Start, Started, deadline_problem, failure_of
from headwater.programs.sandbox.launcher import Kind
from headwater.programs.script import STANDSTILL_SECONDS, CapturedQuery, Clock, Order, Teller, problem_to_json
from headwater.programs.writes import VirtualWrites, catch_writes
from headwater.spark.private import has_jvm
from headwater.values import Position


def main() -> None:
    """Run one script; arguments: the pipe for messages, the order, the kind of sandbox."""
    teller, order = Teller(int(sys.argv[1])), Order(**json.loads(sys.argv[2]))
    clock = Clock(order.seconds, lambda runs: teller.tell(kind="clock", runs=runs))
    kind = Kind(sys.argv[3])
    teller.tell(kind="sandbox", sandbox=kind)
    _watch_time(teller, order, clock)
    _catch_everything(teller, order, clock)
    catch_outside(
        kind,
        network=order.network,
        files=Path(order.scratch).resolve(),
        tell=lambda problem: teller.tell(kind="note", problem=problem_to_json(problem)),
    )
    program = _program(order)
    clock.run()
    failure = _run(program, order)
    if failure is not None:
        teller.tell(kind="failed", problem=failure)
    declares = any(isinstance(value, Declarations) for value in vars(program).values())
    teller.tell(kind="done", declares=declares, spark=has_jvm())


def _catch_everything(teller: Teller, order: Order, clock: Clock) -> None:
    virtual = VirtualWrites(Path(order.scratch))
    started = Started()

    @clock.standing()
    def judge(query: FinishedQuery, writer: WriterSettings, places: tuple[Position, ...]) -> None:
        start = Start(query.frame, writer, places[0] if places else None, started.name_of(writer, places))
        found = CapturedQuery(
            facts=plain_facts(query.frame, writer, start.name),
            place=start.place,
            problems=(*started.problems(start), *start.problems()),
            doubts=tuple(start.doubts()),
        )
        teller.tell(kind="query", query=json.loads(virtual.as_meant(json.dumps(found.to_json()))))
        started.add(query, start)
        # The rest of the script can read what the query would have created.
        connector = connector_of_format(writer.format)
        in_process = connector is not None and connector.sink is not None and connector.sink.in_process
        if writer.table or (in_process and writer.name):
            virtual.table_written(writer.table or writer.name, query.frame, None)
        virtual.path_written(writer.options.get("path"), query.frame, None)

    catch_sessions(dict(order.settings), clock.standing)
    catch_writes(virtual, catch_streams(judge))
    virtual.cover_reads()
    watch_options(lambda values: teller.tell(kind="hide", values=values), (DataFrameReader, DataFrameWriter))


def _watch_time(teller: Teller, order: Order, clock: Clock) -> None:
    """Report the line that the script has reached at the timeout; the other process then ends this one."""
    main_thread = threading.main_thread().ident

    def look() -> None:
        clock.wait_until_over()
        frame = sys._current_frames().get(main_thread or 0)
        problem = deadline_problem(frame, order.file, order.seconds if clock.runs else STANDSTILL_SECONDS)
        with suppress(BrokenPipeError):
            teller.tell(kind="late", problem=problem_to_json(problem))

    threading.Thread(target=look, daemon=True).start()


def _program(order: Order) -> ModuleType:
    """The module of the script, as if Python had been called with its file."""
    program = ModuleType("__main__")
    program.__file__ = os.path.abspath(order.file)
    vars(program)["__builtins__"] = builtins
    sys.modules["__main__"] = program
    sys.path.insert(0, os.path.dirname(os.path.abspath(order.file)))
    sys.argv = [order.file, *order.arguments]
    return program


def _run(program: ModuleType, order: Order) -> dict[str, Any] | None:
    content = Path(order.file).read_bytes()
    try:
        exec(compile(content, os.path.abspath(order.file), "exec", dont_inherit=True), vars(program))
        _join_threads()
    except BaseException as error:  # noqa: BLE001 - all exceptions of a user's script are reported
        problem = failure_of(error, order.file, pyspark.__version__)
        return problem_to_json(problem) if problem else None
    return None


def _join_threads() -> None:
    """Wait for non-daemon threads as Python does on exit: they can start queries."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
