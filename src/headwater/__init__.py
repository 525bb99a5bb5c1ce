"""Headwater: streaming pipelines on Apache Spark, declared once, checked before they start.

Names are loaded when they are first used: `import headwater` starts no JVM and loads no PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.api.pipeline import Pipeline, load
    from headwater.api.plain import check
    from headwater.errors import HeadwaterError
    from headwater.loaders.judge import expect
    from headwater.loaders.python_form import (
        catalog,
        connector,
        console,
        files,
        foreach,
        foreach_batch,
        kafka,
        memory,
        noop,
        python,
        rate,
        rate_per_batch,
        socket,
    )
    from headwater.runtime import Run
    from headwater.values import secret

_NAMES = {
    "HeadwaterError": "headwater.errors",
    "Pipeline": "headwater.api.pipeline",
    "Run": "headwater.runtime",
    "catalog": "headwater.loaders.python_form",
    "check": "headwater.api.plain",
    "connector": "headwater.loaders.python_form",
    "console": "headwater.loaders.python_form",
    "expect": "headwater.loaders.judge",
    "files": "headwater.loaders.python_form",
    "foreach": "headwater.loaders.python_form",
    "foreach_batch": "headwater.loaders.python_form",
    "kafka": "headwater.loaders.python_form",
    "load": "headwater.api.pipeline",
    "memory": "headwater.loaders.python_form",
    "noop": "headwater.loaders.python_form",
    "python": "headwater.loaders.python_form",
    "rate": "headwater.loaders.python_form",
    "rate_per_batch": "headwater.loaders.python_form",
    "secret": "headwater.values",
    "socket": "headwater.loaders.python_form",
}

__all__ = [
    "HeadwaterError",
    "Pipeline",
    "Run",
    "catalog",
    "check",
    "connector",
    "console",
    "expect",
    "files",
    "foreach",
    "foreach_batch",
    "kafka",
    "load",
    "memory",
    "noop",
    "python",
    "rate",
    "rate_per_batch",
    "secret",
    "socket",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
