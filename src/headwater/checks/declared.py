"""Rules over what was declared; they need no Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.connectors import sink_side
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.kafka_sink import COMPLETE_APPENDED
from headwater.errors.catalogue.memory import TABLE_NOT_QUERIED
from headwater.errors.catalogue.running import SECRET_NOT_SET, SINK_MODE, SQL_UNKNOWN_OFFLINE, UNUSED
from headwater.spec import Mode, PipelineSpec, SinkSpec, SourceSpec
from headwater.values import Position, secret


def mode_problem(sink: SinkSpec) -> Problem | None:
    """The refusal of a mode that the sink's connector does not take."""
    modes = sink_side(sink.connector).modes
    if sink.mode.value in modes:
        return None
    return SINK_MODE.at(
        sink.at("mode"),
        sink=sink.name,
        mode=sink.mode.value,
        connector=sink.connector,
        modes=", ".join(mode.value for mode in Mode if mode.value in modes),
    )


def missing_secrets(
    thing: SourceSpec | SinkSpec, environ: Mapping[str, str] = os.environ
) -> Iterator[tuple[str, Position | None]]:
    """The secrets of a thing that have no value here, each with the place of its option."""
    for route, hidden in thing.options.secrets():
        for name in hidden.missing(environ):
            yield name, thing.at(*route)


def secret_problems(
    thing: SourceSpec | SinkSpec, environ: Mapping[str, str] = os.environ
) -> Iterator[Problem]:
    """Why the secrets of a thing can't be had, where they are needed now."""
    for name, place in missing_secrets(thing, environ):
        try:
            secret(name).reveal(environ)
        except PipelineError as error:
            yield from (replace(problem, place=place) for problem in error.problems)


class UnusedTable(Rule):
    """A source or table that no sink reads does nothing; most often a name is misspelt somewhere."""

    entries = {UNUSED: Severity.WARNING}
    example = """
        tables:
          large: SELECT * FROM orders WHERE amount > 10
        sinks:
          orders: {reads: orders, connector: console}
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        graph, spec = situation.graph, situation.spec
        if None in graph.reads.values():
            return
        names = {name.lower(): name for name in spec.names}
        used = set(graph.upstream(*(names[sink.reads.lower()] for sink in spec.sinks)))
        for thing in spec.readable:
            if thing.name not in used:
                kind = "source" if thing in spec.sources else "table"
                problem = UNUSED.at(thing.position, kind=kind, name=thing.name)
                table = thing.name if kind == "table" else ""
                yield Finding(problem, Severity.WARNING, table=table)


class SinkMode(Rule):
    """A connector takes some modes and no others, whatever the query does."""

    entries = {SINK_MODE: Severity.ERROR}
    example = """
        sinks:
          totals: {reads: totals, connector: files, path: out/, format: json, mode: update}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink in situation.spec.sinks:
            problem = mode_problem(sink)
            if problem:
                yield Finding(problem, sink=sink.name)


class CompleteAppended(Rule):
    """Complete mode gives the whole result with each batch. A sink that only adds, such as a topic, holds
    every such result one after the other, and grows with the number of batches."""

    entries = {COMPLETE_APPENDED: Severity.WARNING}
    example = """
        sinks:
          totals:
            reads: totals
            connector: kafka
            servers: localhost:9092
            topic: totals
            value: json
            mode: complete
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink in situation.spec.sinks:
            if sink.mode is Mode.COMPLETE and sink_side(sink.connector).appends:
                problem = COMPLETE_APPENDED.at(sink.at("mode"), sink=sink.name, connector=sink.connector)
                yield Finding(problem, Severity.WARNING, sink.name)


def unqueried(spec: PipelineSpec) -> Iterator[Finding]:
    """A warning for each sink whose rows nobody can query when a command runs the pipeline."""
    for sink in spec.sinks:
        if sink_side(sink.connector).in_process:
            problem = TABLE_NOT_QUERIED.at(sink.at("connector"), sink=sink.name)
            yield Finding(problem, Severity.WARNING, sink.name)


class TableNotQueried(Rule):
    """Commands can't query the table; a Python program that declares or loads the pipeline can."""

    entries = {TABLE_NOT_QUERIED: Severity.WARNING}
    example = """
        sinks:
          totals: {reads: totals, connector: memory, mode: complete}
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        if not situation.spec.in_program:
            yield from unqueried(situation.spec)


class SecretNotSet(Rule):
    """A secret that is not set here may well be set where the pipeline runs; the run itself refuses."""

    entries = {SECRET_NOT_SET: Severity.WARNING}
    example = """
        sources:
          ticks: {connector: rate, options: {key: "${secret:NOT_SET_HERE}"}}
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for thing in situation.spec.connected:
            for name, place in missing_secrets(thing, situation.environ):
                yield Finding(SECRET_NOT_SET.at(place, name=name), Severity.WARNING)


class NotKnownOffline(Rule):
    """SQL that only Spark's own parser reads; without Spark it is unknown, never an error."""

    entries = {SQL_UNKNOWN_OFFLINE: Severity.ADVICE}
    example = """
        tables:
          parts: SELECT raw:order.id FROM orders
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for table in situation.spec.tables:
            if situation.graph.reads.get(table.name) is None:
                problem = SQL_UNKNOWN_OFFLINE.at(table.position, name=table.name)
                yield Finding(problem, Severity.ADVICE, table=table.name)
