"""`options:` on its way to Spark: the only place where a connector's secret is revealed."""

from __future__ import annotations

from headwater.spec import ConnectorOptions
from headwater.values import Secret


def plain(options: ConnectorOptions) -> dict[str, str]:
    """The passed-through options as text."""
    return {
        key: value.reveal() if isinstance(value, Secret) else value for key, value in options.options.items()
    }
