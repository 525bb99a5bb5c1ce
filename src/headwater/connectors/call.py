"""Connectors in a Python declaration: typed functions, so that editors complete them and mypy checks them.

Each connector has its function beside its options; `connector` names any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.values import Secret

Options = Mapping[str, str | int | float | bool | Secret]


@dataclass(frozen=True)
class ConnectorCall:
    """A connector and its keys, not yet judged: that needs to know the pipeline's folder."""

    connector: str
    keys: Mapping[str, Any] = field(default_factory=dict)


def connector(name: str, /, **keys: Any) -> ConnectorCall:
    """Any installed connector by name, with the keys of its reference page."""
    return ConnectorCall(name, {key: value for key, value in keys.items() if value is not None})
