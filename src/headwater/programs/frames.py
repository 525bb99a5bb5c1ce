"""A DataFrame of a running program, judged where it stands: nothing is started, nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from headwater.engine.plain_facts import Written, plain_facts
from headwater.errors import PipelineError, UsageProblem
from headwater.errors.catalogue import programs
from headwater.loaders.constructors import ConnectorCall
from headwater.plan.formats import SinkFormat, connector_format, sink_format
from headwater.programs.messages import Caught
from headwater.programs.starting import format_problem, sink_problems
from headwater.values import Position

_UNKNOWN = SinkFormat("", known=False, continuous=True, real_time=True)


def judged_frame(
    frame: Any, *, sink: object, mode: str, trigger: str, name: str, place: Position | None
) -> Caught:
    """The facts of a stream that would be written so, and what Spark has against it."""
    _refuse(frame, name, place)
    format, known = sink_of(sink, place)
    written = Written(format, mode, trigger, partitioned_by=_partitions(sink))
    facts = plain_facts(frame, written, name, known)
    # A format that the user names may be one that Spark does not have.
    named = isinstance(sink, str) and not connector_format(sink).known
    missing = format_problem(frame.sparkSession, written, place, name) if named else None
    found = (missing,) if missing else tuple(sink_problems(frame, written, place, name, known))
    return Caught(facts, place, found)


def sink_of(sink: object, place: Position | None = None) -> tuple[str, SinkFormat]:
    """The format that a sink stands for, and what is known of it."""
    match sink:
        case None:
            return "", _UNKNOWN
        case ConnectorCall(connector="files", keys=keys):
            return str(keys.get("format", "")), connector_format("files")
        case ConnectorCall(connector=connector):
            return connector, connector_format(connector)
        case str():
            return _named(sink)
        case _ if callable(getattr(sink, "process", None)):
            return "foreach", sink_format("foreach")
        case Callable():
            return "foreachBatch", sink_format("foreachBatch")
    raise UsageProblem(programs.UNKNOWN_SINK.at(place, got=f"`{sink!r}`"))


def _named(name: str) -> tuple[str, SinkFormat]:
    found = sink_format(name)
    # A word may also be one of Headwater's own, such as `foreach_batch`.
    own = connector_format(name)
    return name, own if own.known and not found.known else found


def _partitions(sink: object) -> tuple[str, ...]:
    given = sink.keys.get("partition_by") if isinstance(sink, ConnectorCall) else None
    return (given,) if isinstance(given, str) else tuple(given or ())


def _refuse(frame: Any, name: str, place: Position | None) -> None:
    if ".connect." in type(frame).__module__:
        raise PipelineError(programs.CONNECT_SESSION.at(place))
    if not isinstance(frame, DataFrame):
        raise UsageProblem(programs.NOT_A_FRAME.at(place, got=f"a `{type(frame).__name__}`"))
    if not frame.isStreaming:
        raise PipelineError(programs.NOT_A_STREAM.at(place, name=name))
