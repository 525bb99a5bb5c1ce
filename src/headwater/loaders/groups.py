"""Sink groups: their names, and the keys in which the sinks of a group must agree."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.connectors import all_connectors, sink_side
from headwater.connectors.connector import WritesBatches
from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import (
    GROUP_KEY_CONFLICT,
    GROUP_KEY_UNSUPPORTED,
    GROUP_NAME_CONFLICT,
    GROUP_SINK_UNSUPPORTED,
    GROUP_TRIGGER_UNSUPPORTED,
)
from headwater.spec import PipelineSpec, QuerySpec, SinkSpec
from headwater.values import Continuous, RealTime, quoted

SHARED_KEYS = ("mode", "trigger", "restart", "on_failure")
"""The keys of a sink that concern its query."""


def group_problems(spec: PipelineSpec) -> Iterator[Problem]:
    """Every problem of the groups that their declarations show."""
    yield from _names(spec)
    for query in (each for each in spec.queries if each.is_group):
        yield from _conflicts(query)
        for sink in query.sinks:
            yield from _unsupported(query.name, sink)


def _names(spec: PipelineSpec) -> Iterator[Problem]:
    taken = {sink.name.lower(): f"sink `{sink.name}`" for sink in spec.sinks}
    for query in (each for each in spec.queries if each.is_group):
        first = query.sinks[0]
        if other := taken.get(query.name.lower()):
            yield GROUP_NAME_CONFLICT.at(first.at("group"), group=query.name, sink=first.name, other=other)
        taken.setdefault(query.name.lower(), f"group `{query.name}`")


def _conflicts(query: QuerySpec) -> Iterator[Problem]:
    first, *others = query.sinks
    for other in others:
        for key in SHARED_KEYS:
            one, two = getattr(first, key), getattr(other, key)
            if one != two:
                yield GROUP_KEY_CONFLICT.at(
                    other.at(key),
                    first=first.name,
                    second=other.name,
                    place=str(first.at(key)),
                    group=query.name,
                    key=key,
                    one=_shown(one),
                    other=_shown(two),
                )


def _shown(value: object) -> str:
    return "not set" if value is None else f"`{value}`"


def _unsupported(group: str, sink: SinkSpec) -> Iterator[Problem]:
    if isinstance(sink.trigger, Continuous | RealTime):
        yield GROUP_TRIGGER_UNSUPPORTED.at(
            sink.at("trigger"), sink=sink.name, group=group, trigger=str(sink.trigger)
        )
    side = sink_side(sink.connector)
    if not isinstance(side, WritesBatches):
        known = all_connectors().values()
        supported = quoted(
            (each.name for each in known if isinstance(each.sink, WritesBatches)), last=" and "
        )
        params = {"sink": sink.name, "connector": sink.connector, "supported": supported}
        yield GROUP_SINK_UNSUPPORTED.at(sink.at("group"), **params)
        return
    for key, why in side.ungrouped_keys(sink.options).items():
        yield GROUP_KEY_UNSUPPORTED.at(sink.at(key), sink=sink.name, key=key, why=why)
