"""Questions about a declared pipeline or a query that both the rules and the engine ask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from headwater.connectors import Connector, all_connectors, sink_side, source_side
from headwater.connectors.connector import WritesBatches
from headwater.connectors.registry import source_columns
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.pipelines import EXPECTATION_COLUMN_NOT_FOUND, EXPECTATION_SYNTAX
from headwater.errors.catalogue.running import (
    SINK_MODE_UNSUPPORTED,
    WATERMARK_COLUMN_NOT_FOUND,
    WATERMARK_TYPE_INVALID,
)
from headwater.plan.facts import QueryFacts, SourceFacts
from headwater.plan.sql import columns_asked, fault_in
from headwater.spec import Delivery, Expectation, Mode, PipelineSpec, SinkSpec, SourceSpec, TableSpec
from headwater.values import (
    Continuous,
    Position,
    RealTime,
    Trigger,
    did_you_mean,
    parse_trigger,
    quoted,
    secret,
)

# Declarations: modes, secrets, sources that are not replayable.


def _mode_hint(modes: list[str]) -> str:
    return f"Set `mode: {modes[0]}`." if len(modes) == 1 else f"Set `mode` to {quoted(modes, last=' or ')}."


def mode_problem(sink: SinkSpec) -> Problem | None:
    """The problem of a mode that the sink's connector does not support."""
    modes = sink_side(sink.connector).modes
    if sink.mode.value in modes:
        return None
    return SINK_MODE_UNSUPPORTED.at(
        sink.at("mode"),
        sink=sink.name,
        mode=sink.mode.value,
        connector=sink.connector,
        hint=_mode_hint([mode.value for mode in Mode if mode.value in modes]),
    )


def delivery_of(sink: SinkSpec) -> Delivery:
    """How a sink handles a retried batch, in its own query or in its group."""
    side = sink_side(sink.connector)
    if sink.group is not None and isinstance(side, WritesBatches):
        return side.delivers_batches(sink.options)
    return side.delivers(sink.options)


def missing_secrets(
    thing: SourceSpec | SinkSpec, environ: Mapping[str, str] = os.environ
) -> Iterator[tuple[str, Position | None]]:
    """The secrets without a value, each with the position of its option."""
    for route, hidden in thing.options.secrets():
        for name in hidden.missing(environ):
            yield name, thing.at(*route)


def secret_problems(
    thing: SourceSpec | SinkSpec, environ: Mapping[str, str] = os.environ
) -> Iterator[Problem]:
    """The problems of secrets without a value."""
    for name, place in missing_secrets(thing, environ):
        try:
            secret(name).reveal(environ)
        except PipelineError as error:
            yield from (replace(problem, place=place) for problem in error.problems)


def unreplayable_sources(spec: PipelineSpec) -> list[SourceSpec]:
    """The streaming sources that are not replayable."""
    streams = [source for source in spec.sources if not source.static]
    return [source for source in streams if not source_side(source.connector).replayable]


# Checks the columns that a declaration names against known columns and types.


_TEXT = ("char(", "varchar(")


def watermark_problem(thing: SourceSpec | TableSpec, columns: Mapping[str, str]) -> Problem | None:
    """The problem of a watermark on these columns; None if there is none, or only Spark can tell."""
    if thing.watermark is None:
        return None
    column, place = thing.watermark.column, thing.at("watermark", "column")
    where = f"the {'source' if isinstance(thing, SourceSpec) else 'table'} `{thing.name}`"
    found = {name.lower(): type_ for name, type_ in columns.items()}.get(column.lower())
    # A dot or a backtick refers to a field of a struct, or quotes a name: leave it to Spark.
    if found is None and ("." in column or "`" in column):
        return None
    if found is None:
        hint = did_you_mean(column, columns, f"Use one of its columns: {', '.join(columns)}.")
        return WATERMARK_COLUMN_NOT_FOUND.at(place, where=where, column=column, hint=hint)
    # The struct of a window can also have a watermark.
    if found.startswith(("timestamp", "struct")):
        return None
    return WATERMARK_TYPE_INVALID.at(place, where=where, column=column, type=found)


def columns_of(source: SourceSpec) -> dict[str, str] | None:
    """The columns of a source by name and type, as in Spark; None if only Spark knows them."""
    schema = source_columns(source)
    if schema is None:
        return None
    # Spark reads char and varchar as string.
    columns = {column.name: column.type for column in schema.columns}
    return {name: "string" if type_.startswith(_TEXT) else type_ for name, type_ in columns.items()}


def condition_problem(table: TableSpec, each: Expectation) -> Problem | None:
    """A certain error in the text of a condition."""
    fault = fault_in(each.condition)
    if fault is None:
        return None
    place = each.at((fault.line, fault.column))
    return EXPECTATION_SYNTAX.at(place, table=table.name, expectation=each.name, says=fault.says)


def column_problem(table: TableSpec, each: Expectation, columns: Iterable[str]) -> Problem | None:
    """The first column of a condition that the table does not have."""
    known = list(columns)
    small = {name.lower() for name in known}
    for asked in columns_asked(each.condition):
        # A name with a dot can be a column or a field of a struct, of which only the first part is known here.
        if asked.parts[0].lower() not in small and asked.name.lower() not in small:
            return unknown_column(table, each, asked.name, known, (asked.line, asked.column))
    return None


def unknown_column(
    table: TableSpec, each: Expectation, column: str, known: Iterable[str], spot: tuple[int, int] | None
) -> Problem:
    """The problem of a condition with an unknown column."""
    hint = did_you_mean(column, known, f"Use one of its columns: {', '.join(known)}.")
    return EXPECTATION_COLUMN_NOT_FOUND.at(
        each.at(spot), table=table.name, expectation=each.name, column=column, hint=hint
    )


# A running query: its trigger, its streams, the cores it occupies.


def trigger_of(facts: QueryFacts) -> Trigger | None:
    """The trigger of a query; None if it is the default, or known only to Spark."""
    with suppress(ValueError):
        return parse_trigger(facts.trigger)
    return None


def streaming(facts: QueryFacts) -> Iterator[SourceFacts]:
    """The sources that a query reads as streams."""
    return (source for source in facts.sources if source.streaming)


def slots_of(facts: QueryFacts) -> int:
    """The cores that a query occupies while it runs, as far as known."""
    return sum(source.slots for source in streaming(facts))


def most_partitions(query: QueryFacts, source: str, together: Sequence[QueryFacts]) -> int | None:
    """The number of partitions of a source for which a query has cores, alongside the other queries.

    None for a query with batches, which needs no fixed cores.
    """
    lasting = [each for each in together if isinstance(trigger_of(each), Continuous | RealTime)]
    if query not in lasting:
        return None
    spare = query.cores - sum(map(slots_of, lasting)) - (len(lasting) < len(together))
    readers = [each for each in lasting if any(one.name == source for one in streaming(each))]
    slots = sum(each.slots for each in streaming(query) if each.name == source)
    # One more partition needs one more core for each of them.
    return slots + spare // max(len(readers), 1)


# Properties of Spark formats: a plain program uses formats, a pipeline uses connectors.


@dataclass(frozen=True)
class SourceFormat:
    """A format as a source."""

    connector: str
    """The name of the connector, or of the format if there is none."""
    known: bool = True
    replayable: bool = True
    continuous: bool = False
    """Whether it supports continuous queries; true for an unknown format."""
    real_time: bool = False
    made_while_running: bool = False
    idle_options: tuple[str, ...] = ()
    """Options that have no effect in a continuous query."""


@dataclass(frozen=True)
class SinkFormat:
    """A format as a sink; for an unknown format, nothing is ruled out."""

    connector: str
    modes: tuple[str, ...] = ()
    delivery: str = ""
    known: bool = True
    continuous: bool = False
    real_time: bool = False


_TABLES = ("delta", "iceberg")
"""Formats without a Headwater connector whose properties are known."""


def connector_of_format(name: str) -> Connector | None:
    """The connector that reads or writes in the same way as a Spark format."""
    known = all_connectors().values()
    return next((each for each in known if name.lower() in each.spark_formats), None)


def source_format(name: str) -> SourceFormat:
    """The properties of a format as a source."""
    connector = connector_of_format(name)
    side = connector.source if connector else None
    if connector and side:
        return SourceFormat(
            connector.name,
            replayable=side.replayable,
            continuous=side.continuous is not None,
            real_time=side.real_time is not None,
            made_while_running=side.made_while_running,
            idle_options=side.continuous.without if side.continuous else (),
        )
    unknown = SourceFormat(name, known=False, continuous=True, real_time=True)
    return SourceFormat(name.lower()) if name.lower() in _TABLES else unknown


def sink_format(name: str) -> SinkFormat:
    """The properties of a format as a sink."""
    connector = connector_of_format(name)
    if connector and connector.sink:
        return connector_format(connector.name)
    if name.lower() in _TABLES:
        return SinkFormat(name.lower(), ("append", "complete"), Delivery.IDEMPOTENT.name)
    return SinkFormat(name, known=False, continuous=True, real_time=True)


def connector_format(connector: str) -> SinkFormat:
    """The properties of a connector as a sink; unknown if it has no sink."""
    known = all_connectors().get(connector)
    if known is None or known.sink is None:
        return SinkFormat(connector, known=False, continuous=True, real_time=True)
    modes = tuple(mode for mode in ("append", "update", "complete") if mode in known.sink.modes)
    delivery = known.sink.delivery.name
    return SinkFormat(
        connector, modes, delivery, continuous=known.sink.continuous, real_time=known.sink.real_time
    )


def place_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The locations in the options of a source or sink: paths, topics, tables, addresses."""
    given = {key.lower(): value for key, value in options.items()}
    if "path" in given or "paths" in given:
        return (given.get("path") or given["paths"],)
    topics = [given[key] for key in ("subscribe", "subscribepattern", "assign", "topic") if key in given]
    if topics:
        return tuple(topics[0].split(",")) if "subscribe" in given else (topics[0],)
    if "host" in given and "port" in given:
        return (f"{given['host']}:{given['port']}",)
    return tuple(given[key] for key in ("dbtable", "table") if key in given)


def name_for(format: str, places: tuple[str, ...]) -> str:
    """A short name for what a plain program reads: the directory, the topic, or else the format."""
    if not places:
        return format
    parts = [part for part in places[0].rstrip("/").split("/") if part and "*" not in part]
    return parts[-1] if parts else format
