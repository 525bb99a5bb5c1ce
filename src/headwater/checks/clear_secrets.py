"""Secrets that stand in a pipeline file for everybody to read."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.errors.catalogue.reading import SECRET_IN_CLEAR, SECRET_IN_SETTINGS
from headwater.spec import SinkSpec, SourceSpec
from headwater.values import Position
from headwater.values.secret_names import masked


class SecretInClear(Rule):
    """A password in a pipeline file is in the version control, in facts, plans and logs. `${secret:NAME}`
    is looked up when it is needed and shown nowhere."""

    asks_parts = True
    entries = {SECRET_IN_CLEAR: Severity.WARNING, SECRET_IN_SETTINGS: Severity.WARNING}
    example = """
        sources:
          orders:
            connector: python
            class: feeds.py:Orders
            options: {api_token: 4f9d2c}   # api_token: "${secret:ORDERS_TOKEN}"
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        spec = situation.spec
        for thing in spec.connected:
            kind = "source" if isinstance(thing, SourceSpec) else "sink"
            for key, value, place in _texts(thing):
                if is_clear_secret(key, value):
                    where = f"the {kind} `{thing.name}`"
                    problem = SECRET_IN_CLEAR.at(place, key=key, where=where)
                    yield Finding(problem, Severity.WARNING, thing.name if kind == "sink" else "")
        for key, value in spec.spark.items():
            if is_clear_secret(key, value):
                yield Finding(SECRET_IN_SETTINGS.at(spec.at("spark", key), key=key), Severity.WARNING)


def is_clear_secret(key: str, value: str) -> bool:
    """Whether a text is a secret by the name of its key, or has one in it."""
    return masked(key, value) != value


def _texts(thing: SourceSpec | SinkSpec) -> Iterator[tuple[str, str, Position | None]]:
    """The keys of a connector that have a plain text, and its options."""
    for name, field in type(thing.options).model_fields.items():
        value, key = getattr(thing.options, name), field.alias or name
        if isinstance(value, str):
            yield key, value, thing.at(key)
    for key, value in thing.options.options.items():
        if isinstance(value, str):
            yield key, value, thing.at("options", key)
