"""What every connector has to hold to, for the tests of packages that bring one.

from headwater.testing.conformance import problems_of

def test_the_connector_conforms() -> None:
    assert problems_of("jsonl") == []
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from headwater.connectors import ALL_MODES, Connector, Sink, Source, all_connectors
from headwater.connectors.connector import ValidatesRows
from headwater.spec import Delivery, SinkOptions, SourceOptions

_PYSPARK = 3
_LOADED = "import sys, {modules}; sys.exit(3 if {{'pyspark', 'py4j'}} & set(sys.modules) else 0)"


def problems_of(name: str) -> list[str]:
    """What an installed connector does that other code can't rely on; nothing where it conforms."""
    connector = all_connectors().get(name)
    if connector is None:
        return [f"no connector `{name}` is installed under the entry points `headwater.connectors`"]
    return [*_about(connector), *_source(connector.source), *_sink(connector.sink), *_loading(connector)]


def _about(connector: Connector) -> Iterator[str]:
    if not connector.source and not connector.sink:
        yield "it is neither a source nor a sink"
    if not connector.summary.endswith("."):
        yield "its summary is not a sentence with a full stop"


def _model(side: Source[Any] | Sink[Any], base: type[SourceOptions | SinkOptions]) -> Iterator[str]:
    model, name = getattr(side, "options", None), type(side).__name__
    if not isinstance(model, type) or not issubclass(model, base):
        yield f"`{name}.options` is not a subclass of {base.__name__}"
        return
    if not (model.__doc__ or "").strip():
        yield f"`{model.__name__}` has no docstring, which the reference shows"
    common = set(base.model_fields)
    for key, field in model.model_fields.items():
        if key not in common and not field.description:
            yield f"the key `{key}` of `{model.__name__}` has no description"
    for keys in ("stream_keys", "batch_keys", "first_start_keys", "fixed_keys"):
        known = {field.alias or key for key, field in model.model_fields.items()}
        for key in set(getattr(side, keys, ())) - known:
            yield f"`{name}.{keys}` has `{key}`, which is no key"


def _source(source: Source[Any] | None) -> Iterator[str]:
    if source is None:
        return
    yield from _model(source, SourceOptions)
    if not isinstance(getattr(source, "replayable", None), bool):
        yield f"`{type(source).__name__}.replayable` is not set"
    if isinstance(source, ValidatesRows):
        return
    yield from _overrides(source, Source, "read_stream")
    if source.batch:
        yield from _overrides(source, Source, "read_batch")


def _sink(sink: Sink[Any] | None) -> Iterator[str]:
    if sink is None:
        return
    yield from _model(sink, SinkOptions)
    modes: frozenset[str] = getattr(sink, "modes", frozenset())
    if not modes or not modes <= ALL_MODES:
        yield f"`{type(sink).__name__}.modes` is not some of {', '.join(sorted(ALL_MODES))}"
    if not isinstance(getattr(sink, "delivery", None), Delivery):
        yield f"`{type(sink).__name__}.delivery` is not a Delivery"
    yield from _overrides(sink, Sink, "write_stream")
    if sink.batch:
        yield from _overrides(sink, Sink, "write_batch")


def _overrides(side: Source[Any] | Sink[Any], base: type[Any], method: str) -> Iterator[str]:
    if getattr(type(side), method) is getattr(base, method):
        yield f"`{type(side).__name__}` has no `{method}`"


def _loading(connector: Connector) -> Iterator[str]:
    """Every command loads every connector, and most commands need no Spark."""
    code = _LOADED.format(modules=", ".join(dict.fromkeys(connector.modules)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode not in (0, _PYSPARK):
        yield f"its modules can't be imported alone: {[*done.stderr.splitlines(), ''][-2:][0]}"
    elif done.returncode:
        yield "importing it imports PySpark; import that in the methods that need it"
