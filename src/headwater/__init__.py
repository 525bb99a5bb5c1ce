"""Headwater: streaming pipelines on Apache Spark, declared once, checked before they start.

Names are loaded when they are first used: `import headwater` starts no JVM and loads no PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.api.pipeline import Pipeline, load
    from headwater.api.plain import check
    from headwater.errors import HeadwaterError
    from headwater.loaders.python_form import (
        catalog,
        connector,
        console,
        expect,
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

# Where public names are that are not in `headwater.loaders.python_form`.
_ELSEWHERE = {
    "HeadwaterError": "headwater.errors",
    "Pipeline": "headwater.api.pipeline",
    "Run": "headwater.runtime",
    "check": "headwater.api.plain",
    "load": "headwater.api.pipeline",
    "secret": "headwater.values",
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
    if name not in __all__:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "headwater.loaders.python_form")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
