"""What every connector must comply with, for the tests of packages that provide one.

`problems_of` checks a connector without Spark, `start_problems` runs a pipeline with it on Spark:

    def test_the_connector_conforms() -> None:
        assert problems_of("jsonl", source={"path": "in", "columns": "id int"}, sink={"path": "out"}) == []

    def test_it_starts(tmp_path: Path) -> None:
        ...  # writes pipeline.yml and some input
        assert start_problems(tmp_path / "pipeline.yml", lambda: sorted(written(tmp_path / "out"))) == []
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headwater.checkpoint import Checkpoint, LocalStore, Read
from headwater.connectors import ALL_MODES, Connector, Sink, Source, all_connectors, sink_side
from headwater.connectors import connector as contract
from headwater.connectors.connector import ExplainsFailures, Failure, ValidatesRows
from headwater.engine.pipeline_file import load
from headwater.jars import needs
from headwater.run_directory import RunDirectory
from headwater.spec import Delivery, Schema, SinkOptions, SinkSpec, SourceOptions

Side = Source[Any] | Sink[Any]
Keys = Mapping[str, Any]

_PYSPARK = 3
_LOADED = "import sys, {modules}; sys.exit(3 if {{'pyspark', 'py4j'}} & set(sys.modules) else 0)"
_RUN = "import sys; from headwater.cli.main import main; sys.argv[:] = ['headwater', *sys.argv[1:]]; main()"
_FAILURE = Failure("A failure that no connector knows", "java.lang.RuntimeException: of another component")
ABILITIES = tuple(
    each
    for each in vars(contract).values()
    if getattr(each, "_is_protocol", False) and each.__module__ == contract.__name__
)


def problems_of(name: str, source: Keys | None = None, sink: Keys | None = None) -> list[str]:
    """What an installed connector does that other code cannot rely on; nothing if it conforms.

    `source` and `sink` are keys as a user would write them; its answers for these keys are checked.
    """
    connector = all_connectors().get(name)
    if connector is None:
        return [f"connector `{name}` is not installed under the entry points `headwater.connectors`"]
    return [
        *_about(connector),
        *_source(connector.source),
        *_sink(connector.sink),
        *_answers(connector, connector.source, source),
        *_answers(connector, connector.sink, sink),
        *_loading(connector),
    ]


def _about(connector: Connector) -> Iterator[str]:
    if not connector.source and not connector.sink:
        yield "it is neither a source nor a sink"
    if not connector.summary.endswith("."):
        yield "its summary is not a sentence with a period"


def _model(side: Side, base: type[SourceOptions | SinkOptions]) -> Iterator[str]:
    model, name = getattr(side, "options", None), type(side).__name__
    if not isinstance(model, type) or not issubclass(model, base):
        yield f"`{name}.options` is not a subclass of {base.__name__}"
        return
    if not (model.__doc__ or "").strip():
        yield f"`{model.__name__}` has no docstring (it is shown in the reference)"
    common = set(base.model_fields)
    for key, field in model.model_fields.items():
        if key not in common and not field.description:
            yield f"the key `{key}` of `{model.__name__}` has no description"
    for keys in ("stream_keys", "batch_keys", "first_start_keys", "fixed_keys"):
        known = {field.alias or key for key, field in model.model_fields.items()}
        named = getattr(side, keys, ())
        if isinstance(named, str):
            yield f"`{name}.{keys}` is a string, expected a tuple of keys"
            continue
        for key in set(named) - known:
            yield f"`{name}.{keys}` has `{key}`, which is not a key"
    for key in getattr(side, "validity_keys", ()):
        if not hasattr(model, key) and key not in model.model_fields:
            yield f"`{name}.validity_keys` has `{key}`, which `{model.__name__}` does not have"


def _source(source: Source[Any] | None) -> Iterator[str]:
    if source is None:
        return
    yield from _model(source, SourceOptions)
    yield from _abilities(source)
    if not isinstance(getattr(source, "replayable", None), bool):
        yield f"`{type(source).__name__}.replayable` is not set"
    # If a source validates rows, the two others come from `read_validated`.
    if not isinstance(source, ValidatesRows):
        yield from _overrides(source, Source, "read_stream")
        if source.batch:
            yield from _overrides(source, Source, "read_batch")
    elif source.has_read(Read(), _Nowhere("file")) or source.has_read(Read(), _Nowhere(None, "topic", 0, 0)):
        yield f"`{type(source).__name__}.has_read` returns true for a row before a query has read anything"


@dataclass(frozen=True)
class _Nowhere:
    """The location of a row that no query has read."""

    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


def _sink(sink: Sink[Any] | None) -> Iterator[str]:
    if sink is None:
        return
    yield from _model(sink, SinkOptions)
    yield from _abilities(sink)
    modes: frozenset[str] = getattr(sink, "modes", frozenset())
    if not modes or not modes <= ALL_MODES:
        yield f"`{type(sink).__name__}.modes` is not a subset of {', '.join(sorted(ALL_MODES))}"
    if not isinstance(getattr(sink, "delivery", None), Delivery):
        yield f"`{type(sink).__name__}.delivery` is not a Delivery"
    yield from _overrides(sink, Sink, "write_stream")
    if sink.batch:
        yield from _overrides(sink, Sink, "write_batch")


def _overrides(side: Side, base: type[Any], method: str) -> Iterator[str]:
    if getattr(type(side), method) is getattr(base, method):
        yield f"`{type(side).__name__}` has no `{method}`"


def _abilities(side: Side) -> Iterator[str]:
    """Abilities that are incomplete, and methods with the wrong signature."""
    name = type(side).__name__
    for ability in ABILITIES:
        members = [each for each in {**vars(ability), **ability.__annotations__} if not each.startswith("_")]
        missing = [each for each in members if not hasattr(side, each)]
        if missing and len(missing) < len(members):
            has = ", ".join(f"`{each}`" for each in members if each not in missing)
            lacks = ", ".join(f"`{each}`" for each in missing)
            yield f"`{name}` has {has} but not {lacks}, so the ability `{ability.__name__}` is incomplete"
        for member in () if missing else members:
            yield from _signature(side, ability, member)
    base = Source if isinstance(side, Source) else Sink
    for member in vars(base):
        yield from _signature(side, base, member)


def _signature(side: Side, base: type[Any], method: str) -> Iterator[str]:
    wanted = getattr(base, method, None)
    if method.startswith("_") or not inspect.isfunction(wanted):
        return
    parameters = list(inspect.signature(wanted).parameters.values())[1:]
    named = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
    try:
        inspect.signature(getattr(side, method)).bind(*[None] * (len(parameters) - len(named)), **named)
    except TypeError as error:
        takes = ", ".join(each.name for each in parameters)
        yield f"`{type(side).__name__}.{method}` does not accept ({takes}): {error}"


def _answers(connector: Connector, side: Side | None, keys: Keys | None) -> Iterator[str]:
    """Its answers for the keys of a test."""
    if keys is None:
        return
    if side is None:
        yield f"`{connector.name}` has no such side, but the test sets keys for it"
        return
    try:
        options = side.options.model_validate(dict(keys))
    except ValueError as error:
        yield f"`{side.options.__name__}` does not accept {dict(keys)}: {error}"
        return
    name = type(side).__name__
    if not all(isinstance(each, str) for each in side.places(options)):
        yield f"`{name}.places` returns a value that is not a string"
    known = needs(version("pyspark"))
    # Another package's code may return anything.
    jars: Any = side.jars(options)
    settings: Any = side.spark_settings(options)
    if isinstance(jars, str):
        yield f"`{name}.jars` returns a string, expected a tuple of strings"
        jars = ()
    if not isinstance(settings, Mapping):
        yield f"`{name}.spark_settings` does not return a mapping of settings to strings"
        settings = {}
    for jar in jars:
        if jar not in known and not Path(jar).is_file():
            yield f"`{name}.jars` contains `{jar}`, which is neither a file nor one of {', '.join(known)}"
    for key, value in settings.items():
        if not key.startswith("spark.") or not isinstance(value, str):
            yield f"`{name}.spark_settings` has `{key}`: expected a Spark setting with a string"
    if isinstance(side, Source) and not isinstance(side.columns(options), Schema | None):
        yield f"`{name}.columns` is not a Schema or None"
    if isinstance(side, Sink) and not isinstance(side.delivers(options), Delivery):
        yield f"`{name}.delivers` is not a Delivery"
    written = SinkSpec.model_construct(name="conformance", connector=connector.name, options=options)
    if isinstance(side, ExplainsFailures) and side.explain(_FAILURE, written) is not None:
        yield f"`{name}.explain` explains a failure that it cannot know"


def _loading(connector: Connector) -> Iterator[str]:
    """Every command loads every connector, and most commands do not need Spark."""
    code = _LOADED.format(modules=", ".join(dict.fromkeys(connector.modules)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode not in (0, _PYSPARK):
        yield f"its modules cannot be imported on their own: {[*done.stderr.splitlines(), ''][-2:][0]}"
    elif done.returncode:
        yield "importing it imports PySpark; import PySpark in the methods that need it"


def start_problems(pipeline: Path, written: Callable[[], object] | None = None) -> list[str]:
    """What fails when a pipeline runs, and when the last batch of each query is retried.

    `written` returns the contents of the sinks, in a comparable form. If a sink declares that a retried batch
    changes nothing, its contents must be the same afterwards.
    """
    return list(_starts(pipeline, written))


def _starts(pipeline: Path, written: Callable[[], object] | None) -> Iterator[str]:
    spec = load(pipeline)
    said = _run(pipeline)
    if said:
        yield f"the pipeline does not run: {said}"
        return
    before = written() if written else None
    for sink in (each for each in spec.sinks if not sink_side(each.connector).in_process):
        checkpoint = RunDirectory(spec.run_dir).checkpoint(sink.name)
        done = Checkpoint(LocalStore(checkpoint)).last_commit
        if done is None:
            yield f"query `{sink.name}` has not committed a batch; give its source data to read"
        else:
            # As after a crash between the sink's write and Spark's commit.
            for file in (f"{done.batch_id}", f".{done.batch_id}.crc"):
                (checkpoint / "commits" / file).unlink(missing_ok=True)
    said = _run(pipeline)
    if said:
        yield f"a batch cannot be retried: {said}"
    sides = [(sink_side(sink.connector), sink.options) for sink in spec.sinks]
    idempotent = all(side.delivers(options) is Delivery.IDEMPOTENT for side, options in sides)
    after = written() if written else None
    if idempotent and not said and before != after:
        yield f"a retried batch changed the output: before {before}, after {after}"


def _run(pipeline: Path) -> str:
    """Run it as a user would, in a separate process; returns what is wrong."""
    command = [sys.executable, "-c", _RUN, "run", "--until-idle", str(pipeline)]
    done = subprocess.run(command, cwd=pipeline.parent, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
