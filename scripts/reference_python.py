"""The reference page of the Python API: signatures, docstrings, and one line for each parameter.

The description of a parameter comes from the first of these that has one: the model of the key with the same name,
the "Args:" section of the docstring, the table DESCRIPTIONS below.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, get_overloads

from pydantic import BaseModel

import headwater
from headwater.api.plain import QueryChecked
from headwater.api.remote import RemoteQuery, RemoteRun
from headwater.api.results import BatchResult, ExplainResult
from headwater.checks import Finding
from headwater.connectors import all_connectors
from headwater.errors import HeadwaterError
from headwater.loaders.json_schema import keys_of
from headwater.loaders.keys import PipelineKeys, Places, TableKeys
from headwater.runtime.handles import Query
from headwater.runtime.watch import Watch
from headwater.spec.pipeline import ExpectationKeys, FunctionKeys, SinkKeys, SourceKeys
from headwater.testing import conformance
from headwater.testing.stream_test import StreamTest, StreamTestRun
from scripts.markdown import sentence, table, text

WIDEST_SIGNATURE = 90

INTRODUCTION = """\
# Python API

This page lists the classes and functions of the `headwater` package, with one line for each parameter.

```python
import headwater as hw
```

`import headwater` loads neither PySpark nor a JVM. For examples, see
[Write pipelines in Python](../build/python-pipelines.md).
"""

FIRST = ("Pipeline", "load", "check", "expect", "secret", "connector")
"""Public names at the top of the page, in this order; the connectors and the handles of a run follow."""
LAST = ("Run", "HeadwaterError")

INTERNAL = frozenset(
    {
        "HeadwaterError.of",
        "Pipeline.copied",
        "Pipeline.of_file",
        "Pipeline.spec",
        "Run.notify",
        "Run.reason_to_end",
        "StreamTestRun.begin",
        "StreamTestRun.close",
    }
)
"""Members that Headwater itself calls."""

KEYS: Mapping[str, type[BaseModel]] = {
    "hw.Pipeline": PipelineKeys,
    "Pipeline.source": SourceKeys,
    "Pipeline.table": TableKeys,
    "Pipeline.sink": SinkKeys,
    "Pipeline.function": FunctionKeys,
    "hw.expect": ExpectationKeys,
}
"""Calls whose parameters are keys of a pipeline file."""

DESCRIPTIONS: Mapping[str, str] = {
    # Parameters of several functions.
    "*.metrics": "Address of an endpoint for [Prometheus](../operate/metrics.md): `PORT` or `HOST:PORT`.",
    "*.conf": "Spark settings, by name. They override the settings of the pipeline.",
    "*.master": "Spark master, such as `local[4]` or `spark://host:7077`.",
    "*.spark_ui": "Enable the Spark UI.",
    "*.timeout": "Seconds to wait. By default, there is no limit.",
    "**.checks": "Checks after the step: `expect`, `watermark`, `late`, `state`, `idle`, `fails`.",
    # Sinks for plain PySpark.
    "*.mode": "`append`, `update` or `complete`. Default: `update` with `key`, else `append`.",
    "hw.sinks.exactly_once.function": "Your function: `write(batch, batch_id, token)`.",
    "hw.sinks.exactly_once.ledger": "Path of a SQLite file, or address of a PostgreSQL or MySQL database.",
    "hw.sinks.exactly_once.name": "Name of the function in the ledger. Default: its Python name.",
    "hw.sinks.group.functions": "Functions that receive the batch and its ID, such as those of `hw.sinks`.",
    # Declarations.
    "Pipeline.source.name": "Name of the source.",
    "Pipeline.source.connector": "Connector with its keys, such as `hw.files(…)`.",
    "Pipeline.table.declared": "Name of the table. As a decorator, the name defaults to that of the function.",
    "Pipeline.sink.name": "Name of the sink and of its query.",
    "Pipeline.sink.connector": "Connector with its keys, such as `hw.console()`.",
    "Pipeline.function.name": "Name of the function in SQL.",
    "hw.connector.name": "Name of an installed connector.",
    "hw.connector.keys": "Keys of the connector.",
    "hw.load.file": "Path of the pipeline: `pipeline.yml`, `pipeline.py`, or `pipeline.py:name`.",
    "hw.connect.run": "Pipeline file or run directory.",
    "hw.prove.file": "Path of the pipeline: `pipeline.yml`, `pipeline.py`, or `pipeline.py:name`.",
    "hw.prove.kills": "Number of kills, in turn at every point, then at random moments.",
    "hw.prove.seed": "Seed of the random choices. The same seed repeats them.",
    "hw.prove.points": "Names of [points](../operate/prove.md). By default, all.",
    "hw.prove.inputs": "Files or directories to read instead of the current data, by source.",
    "hw.prove.timeout": "Longest time of the proof, such as `30 minutes`.",
    "hw.prove.keep": "Keep the scratch copies of the sinks.",
    "hw.watch.spark": "Session whose queries are watched. Default: the active session.",
    "hw.watch.name": "Name in `headwater status`. Default: the name of the Spark application.",
    "hw.watch.run_dir": "Directory for the history and the control socket.",
    "hw.watch.on_event": "Function that receives every [event](events.md).",
    "hw.watch.alerts": "Thresholds of [alerts](../operate/health.md), as in a pipeline.",
    "hw.watch.history": "How much [history](../operate/history.md) is kept, as in a pipeline.",
    "hw.secret.name": "Name of the secret, as in `${secret:NAME}`.",
    # Checks and runs.
    "Pipeline.start.fail_fast": "Stop all queries when one fails. By default, the other queries continue.",
    "Pipeline.start.restarts": "Restart failed queries as `restart` in the pipeline says. Default: true.",
    "Pipeline.start.until_idle": "Process all available data, stop, and then return.",
    "Pipeline.start.stop_timeout": "Seconds to wait for running batches when the run stops. Default: 60.",
    "Pipeline.start.on_event": "Function that receives every [event](events.md) of the run.",
    "Pipeline.check.offline": "Skip Spark: fast, but cannot check SQL columns and types.",
    "Pipeline.explain.rates": "Input rates in rows per second, by source, to estimate the state size.",
    "Pipeline.run_batch.output_dir": "Directory for the results of sinks that store files.",
    "Pipeline.run_batch.append": "Allow appending to topics that the stream also writes.",
    "hw.check.df": "Streaming DataFrame to check.",
    "hw.check.mode": "Output mode: `append`, `update` or `complete`.",
    "hw.check.sink": 'Spark format such as `"parquet"`, `foreachBatch` function, or connector such as '
    "`hw.files(…)`. Without a sink, Headwater skips the checks that depend on it.",
    "hw.check.trigger": 'Trigger as in a pipeline file, such as `"every 10 seconds"`.',
    "hw.check.name": 'Name of the query in messages. Default: `"query"`.',
    "hw.check.suppress": "Findings to suppress, by code, each with a reason.",
    "QueryChecked.name": "Name of the query.",
    "QueryChecked.to_json": "The result as JSON values.",
    "Finding.to_json": "The finding as JSON values, as `headwater check --json` prints it.",
    "ExplainResult.to_json": "The result as JSON values, as `headwater explain --json` prints it.",
    "ExplainResult.pipeline": "Name of the pipeline.",
    "ExplainResult.run_dir": "Path of the run directory.",
    "ExplainResult.tables": "Sources and tables, each with its schema.",
    "ExplainResult.sinks": "Sinks, each with its settings, plan, operators and delivery guarantee.",
    "BatchResult.written": "Where each sink wrote its rows.",
    "BatchResult.rows": "Number of rows of each sink; None if unknown.",
    # Handles.
    "Query.name": "Name of the query, which is the name of its sink.",
    "Query.status": "Status of the query.",
    "Query.stop.timeout": "Seconds to wait for the running batch. Default: the `stop_timeout` of the run.",
    "Run.id": "ID of the run.",
    "Run.is_active": "Whether a query is running.",
    "Run.query.name_or_id": "Name of the sink, or ID of the query.",
    "Run.stop.timeout": "Seconds to wait for running batches. Default: the `stop_timeout` of the run.",
    "RemoteRun.id": "ID of the run.",
    "RemoteRun.query.name_or_id": "Name of the sink, or ID of the query.",
    "RemoteRun.wait_until.condition": "Function that receives the status and returns whether to stop waiting.",
    "RemoteRun.sql.query": "SELECT over the tables of sinks.",
    "RemoteRun.sql.max_rows": "Maximum number of rows.",
    "RemoteRun.events.since": "Time of the oldest event.",
    "RemoteRun.events.query": "Only the events of this query.",
    "RemoteRun.events.follow": "Also return later events, until this `threading.Event` is set.",
    "RemoteRun.logs.names": "Names of the log files.",
    "RemoteRun.logs.lines": "Number of existing lines of each file.",
    "RemoteRun.logs.follow": "Also return later lines, until this `threading.Event` is set.",
    "RemoteQuery.name": "Name of the query, which is the name of its sink.",
    "Watch.id": "ID of this watch, shown as the run ID in `headwater status`.",
    "Run.sql.query": "SELECT over the tables of `memory` sinks.",
    # Testing.
    "stream_test.subject": "Function from DataFrames to a DataFrame, or path of a pipeline file.",
    "stream_test.streams": "Function only: schema of each streaming parameter, as DDL or `StructType`.",
    "stream_test.static": "Function only: other parameters, as DataFrames or rows.",
    "stream_test.mode": "Function only: output mode.",
    "stream_test.given": "Pipeline only: rows of static sources by name, or `real` to read the declared source.",
    "stream_test.sinks": "Pipeline only: sinks to run. By default, all.",
    "stream_test.real": "Sinks to run as declared. A mapping also names functions that read their output back.",
    "stream_test.day": "Date of times without a date. Default: `2026-01-01`.",
    "stream_test.clock": "Processing time at the start, such as `08:00`. Default: midnight of `day`.",
    "stream_test.no_data_batches": "Turn Spark's no-data batches on or off.",
    "stream_test.env": "Environment variables of the test.",
    "StreamTestRun.feed.rows": "Rows of the only stream, or rows by stream.",
    "StreamTestRun.feed.crash": "Crash before the batch is committed, then restart.",
    "StreamTestRun.feed.named": "Rows by stream, and checks by name.",
    "StreamTestRun.advance.by": "Duration, such as `2 hours`.",
    "StreamTestRun.change_to.pipeline": "Path of the new version.",
    "StreamTestRun.expect.rows": "Rows of the only sink, or rows by sink.",
    "StreamTestRun.run_steps.steps": "Steps of `headwater.testing`, such as `Feed` and `Advance`.",
    "StreamTestRun.restart": "Stop every query between two batches, and resume it from its checkpoint.",
    "StreamTestRun.stop": "Stop every query between two batches.",
    "StreamTestRun.start": "Resume every query from its checkpoint.",
    "conformance.problems_of.name": "Name of an installed connector.",
    "conformance.problems_of.source": "Keys of a source, to check the answers of the connector about it.",
    "conformance.problems_of.sink": "Keys of a sink, to check the answers of the connector about it.",
    "conformance.start_problems.pipeline": "Path of a pipeline file that uses the connector.",
    "conformance.start_problems.written": "Function that returns the contents of the sinks, to compare them.",
}
"""Descriptions of parameters and members that neither a key nor a docstring describes."""


def python_page() -> Iterator[str]:
    yield from (*INTRODUCTION.splitlines(), "")
    others = (name for name in headwater.__all__ if name not in (*FIRST, *LAST, "sinks"))
    for name in (*FIRST, *others, *LAST):
        yield from described(f"hw.{name}", getattr(headwater, name))
        if name == "HeadwaterError":
            yield from error_classes()
    for thing in (Query, RemoteRun, RemoteQuery, Watch, Finding, QueryChecked, ExplainResult, BatchResult):
        yield from described(thing.__name__, thing)
    yield from sink_lines()
    yield from fixture_lines()
    yield from ("## headwater.testing.conformance", "")
    yield "Functions for the tests of packages that provide a connector. See"
    yield from ("[Connector SDK](../contribute/connector-sdk.md).", "")
    for function in (conformance.problems_of, conformance.start_problems):
        yield from (f"### conformance.{function.__name__}", "")
        yield from call_lines(f"conformance.{function.__name__}", function.__name__, function)


def sink_lines() -> Iterator[str]:
    yield from ("## hw.sinks", "")
    yield "Functions for `foreachBatch` in plain PySpark. See"
    yield from ("[Exactly-once database sinks](../connectors/exactly-once-sinks.md#plain-pyspark).", "")
    for name in headwater.sinks.__all__:
        yield from (f"### sinks.{name}", "")
        yield from call_lines(f"hw.sinks.{name}", f"sinks.{name}", getattr(headwater.sinks, name))


def fixture_lines() -> Iterator[str]:
    yield from ("## stream_test", "")
    yield "The pytest fixture `stream_test` runs a function or a pipeline on test streams. See"
    yield from ("[Test a pipeline](../build/test.md) and [pytest fixture](pytest-fixture.md).", "")
    yield from call_lines("stream_test", "stream_test", StreamTest.__call__)
    yield from described("StreamTestRun", StreamTestRun)


def error_classes() -> Iterator[str]:
    """The classes of errors with their exit codes."""
    yield from ("Import the derived classes from `headwater.errors`:", "")
    rows = [
        (f"`{error.__name__}`", f"`{error.__base__.__name__}`", str(error.exit_code), own_doc(error))
        for error in _subclasses(HeadwaterError)
        if error.__module__.startswith("headwater.errors") and error.__base__
    ]
    yield from table(("class", "base class", "exit code", "description"), rows)


def _subclasses(error: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    for inner in error.__subclasses__():
        yield inner
        yield from _subclasses(inner)


def described(name: str, thing: Any) -> Iterator[str]:
    """A function, or a class with its members."""
    yield from (f"## {name}", "")
    if not inspect.isclass(thing):
        yield from call_lines(name, name, thing)
        return
    # Only users call the constructor of a pipeline; Headwater creates the other objects.
    if issubclass(thing, headwater.Pipeline):
        yield from call_lines(name, name, thing)
    else:
        yield from doc_lines(name, thing)
    short = name.removeprefix("hw.")
    yield from table(("attribute", "type", "description"), attribute_rows(short, thing))
    for member, value in members(short, thing).items():
        if not isinstance(value, property):
            yield from (f"### {short}.{member}", "", *call_lines(f"{short}.{member}", member, value))


def attribute_rows(name: str, thing: type) -> Iterator[tuple[str, str, str]]:
    """The fields of a dataclass and the properties of a class."""
    if is_dataclass(thing):
        for field, type_, words in fields_of(thing):
            if field != "problem":
                yield f"`{field}`", f"`{type_}`", described_as(f"{name}.{field}", words)
    for member, value in members(name, thing).items():
        if isinstance(value, property) and value.fget:
            words = described_as(f"{name}.{member}", inspect.getdoc(value) or "")
            yield f"`{member}`", f"`{value.fget.__annotations__['return']}`", words


def members(name: str, thing: type) -> dict[str, Any]:
    """Public methods and properties in the order of the source, those of base classes first."""
    found: dict[str, Any] = {}
    for owner in reversed(thing.__mro__):
        if owner.__module__.startswith("headwater."):
            found |= {member: value for member, value in vars(owner).items() if is_member(member, value)}
    return {member: value for member, value in found.items() if f"{name}.{member}" not in INTERNAL}


def is_member(name: str, value: object) -> bool:
    # Users do not need the positions of declarations.
    hidden = name.startswith("_") or name in vars(Places)
    return not hidden and (inspect.isroutine(value) or isinstance(value, property))


def fields_of(thing: type) -> Iterator[tuple[str, str, str]]:
    """The fields of a dataclass: name, type, and the text below it in the source."""
    (definition,) = ast.parse(inspect.getsource(thing)).body
    assert isinstance(definition, ast.ClassDef), "the source of a class is its definition"
    below = [*definition.body[1:], ast.Pass()]
    for field, next_ in zip(definition.body, below, strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            words = ""
            if isinstance(next_, ast.Expr) and isinstance(next_.value, ast.Constant):
                words = inspect.cleandoc(str(next_.value.value))
            yield field.target.id, ast.unparse(field.annotation), words


# A call: signature, text, parameters.


def call_lines(name: str, shown: str, function: Any) -> Iterator[str]:
    """A function, method or class: how to call it, what it does, and its parameters."""
    yield from (*signatures(shown, function), *doc_lines(name, function))
    rows = [(f"`{parameter}`", words) for parameter, words in parameters(name, function).items()]
    yield from table(("parameter", "description"), rows)


def doc_lines(name: str, thing: object) -> Iterator[str]:
    words = ARGS.sub("", inspect.getdoc(thing) or "").rstrip()
    yield from (text(words or DESCRIPTIONS.get(name, "")), "")


def parameters(name: str, function: Any) -> dict[str, str]:
    """The parameters of a call, in order, each with its description; empty if there is none."""
    plain = getattr(function, "__func__", function)
    found = [
        parameter
        for each in get_overloads(plain) or [plain]
        for parameter in inspect.signature(each).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    from_keys = key_descriptions(name)
    from_args = args_of(inspect.getdoc(plain) or "")
    stars: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {
        stars.get(each.kind, "") + each.name: described_as(
            f"{name}.{each.name}",
            from_keys.get(each.name.rstrip("_"), "") or from_args.get(each.name, ""),
            shared=f"{stars.get(each.kind, '*')}.{each.name}",
        )
        for each in found
    }


def described_as(name: str, words: str, shared: str = "") -> str:
    """The description of a parameter or member as a sentence in one line."""
    found = words or DESCRIPTIONS.get(name) or DESCRIPTIONS.get(shared, "")
    return sentence(text(" ".join(ARGS.sub("", found).split())))


def key_descriptions(name: str) -> dict[str, str]:
    """The descriptions of the keys that a call takes as parameters."""
    if name in KEYS:
        # In Python, a connector is a call and not a name.
        nodes = keys_of(KEYS[name]).items()
        return {key: node.get("description", "") for key, node in nodes if key != "connector"}
    connector = all_connectors().get(name.removeprefix("hw.").removeprefix("sinks."))
    if not name.startswith("hw.") or connector is None:
        return {}
    sides = {"source": connector.source, "sink": connector.sink}
    known = {side: keys_of(each.options) for side, each in sides.items() if each}
    words: dict[str, dict[str, str]] = {}
    for side, keys in known.items():
        for key, node in keys.items():
            words.setdefault(key, {})[side] = node.get("description", "")
    return {key: _of_sides(each, len(known)) for key, each in words.items()}


def _of_sides(words: Mapping[str, str], sides: int) -> str:
    """One description if source and sink share it, or one for each."""
    if sides == 1 or (len(words) == sides and len(set(words.values())) == 1):
        return next(iter(words.values()))
    if len(words) == 1:
        return " ".join(f"{side.capitalize()} only. {each}" for side, each in words.items())
    return " ".join(f"As a {side}: {sentence(each)}" for side, each in words.items())


ARGS = re.compile(r"\n*^Args:\n((?:[ \t]+.*\n?|\n(?=[ \t]))*)", re.MULTILINE)
_ARG = re.compile(r"^\s+\*{0,2}(\w+)(?: \([^)]*\))?: (.*(?:\n\s{8,}.*)*)", re.MULTILINE)


def args_of(doc: str) -> dict[str, str]:
    """The parameters in the "Args:" section of a docstring."""
    section = ARGS.search(doc)
    return {name: " ".join(words.split()) for name, words in _ARG.findall(section[1])} if section else {}


def undescribed() -> list[str]:
    """Public parameters and attributes on the page that have no description."""
    empty = re.compile(r"^\| `[^`]+` \|(?: `[^|]*` \|)? \|$")
    heading, found = "", []
    for line in python_page():
        heading = line if line.startswith("#") else heading
        if empty.match(line):
            found.append(f"{heading}: {line}")
    return found


def own_doc(thing: object) -> str:
    return sentence(text(" ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())))


# Signatures.


class Written(str):
    """An annotation as in the source: without quotes."""

    def __repr__(self) -> str:
        return str(self)


def signatures(name: str, function: Any) -> Iterator[str]:
    """A block with every way to call it."""
    plain = getattr(function, "__func__", function)
    yield "```python"
    yield from (signature(name, each) for each in get_overloads(plain) or [plain])
    yield from ("```", "")


def signature(name: str, function: Callable[..., Any]) -> str:
    declared = inspect.signature(function)
    shown = [
        each.replace(annotation=Written(each.annotation), default=plain_default(each.default))
        for each in declared.parameters.values()
        if each.name not in ("self", "cls")
    ]
    returns = "" if inspect.isclass(function) else f" -> {declared.return_annotation}"
    line = f"{name}{inspect.Signature(shown)}{returns}"
    if len(line) <= WIDEST_SIGNATURE:
        return line
    inner = "".join(f"    {part},\n" for part in parameter_texts(shown))
    return f"{name}(\n{inner}){returns}"


def parameter_texts(parameters: Sequence[inspect.Parameter]) -> list[str]:
    """Each parameter as text, with the `*` and `/` between them."""
    whole = str(inspect.Signature(parameters))[1:-1]
    texts, depth = [""], 0
    for letter in whole:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            texts.append("")
        else:
            texts[-1] += letter
    return [part.strip() for part in texts]


def plain_default(default: Any) -> Any:
    """A default without the address that Python shows for a function."""
    return Written("…") if inspect.isfunction(default) else default
