"""Options on their way to Spark: the only place where a connector's secret is revealed."""

from __future__ import annotations

from headwater.spec import ConnectorOptions
from headwater.values import Secret
from headwater.values.secrets import hide


def plain(options: ConnectorOptions) -> dict[str, str]:
    """The passed-through options as text."""
    return {
        key: revealed(value) if isinstance(value, Secret) else value for key, value in options.options.items()
    }


def revealed(secret: Secret) -> str:
    """A secret as Spark gets it; from now on it is hidden in every text."""
    return secret.reveal()


def hidden(text: str) -> None:
    """Hide a text that Spark gets, and that has a secret in it, in every text from now on."""
    hide(text)
