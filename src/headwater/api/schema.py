"""`headwater schema`: the JSON Schema of pipeline files, and the keys of one connector in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headwater.connectors import all_connectors
from headwater.errors import UsageProblem
from headwater.errors.catalogue.usage import NO_SUCH_CONNECTOR
from headwater.loaders.json_schema import keys_of, pipeline_schema
from headwater.spec import Connector, SinkSide, SourceSide
from headwater.values import nearest


def schema() -> dict[str, Any]:
    """The schema of pipeline files, with every installed connector."""
    return pipeline_schema()


@dataclass(frozen=True)
class Key:
    """A key that stands beside `connector:`."""

    name: str
    required: bool
    default: Any
    meaning: str


@dataclass(frozen=True)
class ConnectorReference:
    """What an installed connector is, and the keys that it takes as a source and as a sink."""

    name: str
    summary: str
    source: tuple[Key, ...] | None
    sink: tuple[Key, ...] | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def connector_reference(name: str) -> ConnectorReference:
    """The reference of one connector, built in or from another package."""
    known = all_connectors()
    if name not in known:
        meant = nearest(name, known)
        hint = f"Did you mean `{meant}`?" if meant else "Is a package missing?"
        raise UsageProblem(NO_SUCH_CONNECTOR.at(None, name=name, hint=hint, known=", ".join(sorted(known))))
    return _described(known[name])


def _described(connector: Connector) -> ConnectorReference:
    return ConnectorReference(
        connector.name, connector.summary, _keys(connector.source), _keys(connector.sink)
    )


def _keys(side: SourceSide | SinkSide | None) -> tuple[Key, ...] | None:
    if side is None:
        return None
    fields = {field.alias or name: field for name, field in side.options.model_fields.items()}
    return tuple(
        Key(name, fields[name].is_required(), node.get("default"), node.get("description", ""))
        for name, node in keys_of(side.options).items()
    )
