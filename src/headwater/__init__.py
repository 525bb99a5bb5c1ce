"""Headwater: streaming pipelines on Apache Spark, declared once, checked before they start.

Names are loaded when they are first used: `import headwater` starts no JVM and loads no PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.api.pipeline import Pipeline, load
    from headwater.api.plain import check
    from headwater.api.prove import prove
    from headwater.api.remote import connect
    from headwater.api.watch import watch
    from headwater.connectors.catalog import catalog
    from headwater.connectors.connector import connector
    from headwater.connectors.databases import sinks
    from headwater.connectors.databases.call import duckdb, mysql, postgres, sqlite
    from headwater.connectors.files.call import files
    from headwater.connectors.foreach.options import foreach, foreach_batch
    from headwater.connectors.kafka.call import kafka
    from headwater.connectors.python.connector import python
    from headwater.connectors.trial import console, memory, noop, rate, rate_per_batch, socket
    from headwater.errors import HeadwaterError
    from headwater.loaders.python_form import expect
    from headwater.runtime.handles import Run
    from headwater.values import secret

_MODULES = {
    "HeadwaterError": "errors",
    "Pipeline": "api.pipeline",
    "Run": "runtime.handles",
    "catalog": "connectors.catalog",
    "check": "api.plain",
    "connect": "api.remote",
    "connector": "connectors.connector",
    "duckdb": "connectors.databases.call",
    "expect": "loaders.python_form",
    "files": "connectors.files.call",
    "foreach": "connectors.foreach.options",
    "foreach_batch": "connectors.foreach.options",
    "kafka": "connectors.kafka.call",
    "load": "api.pipeline",
    "mysql": "connectors.databases.call",
    "postgres": "connectors.databases.call",
    "prove": "api.prove",
    "python": "connectors.python.connector",
    "secret": "values",
    "sqlite": "connectors.databases.call",
    "watch": "api.watch",
}
"""Where public names are; the others are connectors for trying things out."""
_PACKAGES = {"sinks": "connectors.databases.sinks"}
"""Public modules."""

__all__ = [
    "HeadwaterError",
    "Pipeline",
    "Run",
    "catalog",
    "check",
    "connect",
    "connector",
    "console",
    "duckdb",
    "expect",
    "files",
    "foreach",
    "foreach_batch",
    "kafka",
    "load",
    "memory",
    "mysql",
    "noop",
    "postgres",
    "prove",
    "python",
    "rate",
    "rate_per_batch",
    "secret",
    "sinks",
    "socket",
    "sqlite",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    if name in _PACKAGES:
        return import_module(f"headwater.{_PACKAGES[name]}")
    return getattr(import_module(f"headwater.{_MODULES.get(name, 'connectors.trial')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
