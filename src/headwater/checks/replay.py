"""Rules about sources whose rows can't be read a second time."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.connectors import sink_side, source_side
from headwater.errors.catalogue.replay import (
    NOT_REPLAYABLE,
    NOT_REPLAYABLE_CHECKPOINT,
    NOT_REPLAYABLE_SHARED,
)
from headwater.spec import PipelineSpec, SourceSpec


def passing_sources(spec: PipelineSpec) -> tuple[SourceSpec, ...]:
    """The streaming sources that can't be read again."""
    return tuple(
        source
        for source in spec.sources
        if not source.static and not source_side(source.connector).replayable
    )


class NotReplayable(Rule):
    """After a crash a batch is read again, and some sources can't give its rows a second time."""

    entries = {NOT_REPLAYABLE: Severity.WARNING}
    example = """
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in passing_sources(situation.spec):
            problem = NOT_REPLAYABLE.at(source.position, name=source.name, connector=source.connector)
            yield Finding(problem, Severity.WARNING)


class NotReplayableShared(Rule):
    """Each sink reads its sources by itself; where rows come only once, each would get another part."""

    entries = {NOT_REPLAYABLE_SHARED: Severity.ERROR}
    example = """
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
        sinks:
          shown: {reads: lines, connector: console}
          kept: {reads: lines, connector: files, path: kept/, format: text}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in passing_sources(situation.spec):
            # A table that sets rows aside is refused by a rule of its own.
            sinks = [sink for sink in situation.graph.readers(source.name) if not sink.sets_aside]
            if len(sinks) > 1:
                shown = ", ".join(f"`{sink.name}`" for sink in sinks)
                yield Finding(
                    NOT_REPLAYABLE_SHARED.at(
                        source.position, name=source.name, connector=source.connector, sinks=shown
                    )
                )


class NotReplayableCheckpoint(Rule):
    """A checkpoint says how far a source was read; one that counts anew at each start can't go on there."""

    entries = {NOT_REPLAYABLE_CHECKPOINT: Severity.ERROR}
    example = """
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
        sinks:
          kept: {reads: lines, connector: files, path: kept/, format: text}   # and it ran before
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in situation.spec.sources:
            goes_on = source_side(source.connector).goes_on
            for sink in [] if source.static else situation.graph.readers(source.name):
                # A sink that lives in one process begins anew, too.
                anew = sink_side(sink.connector).in_process
                reached = None if anew else situation.reached.get(sink.name)
                # Which of the offsets is this source's, the checkpoint does not say.
                if reached and not all(map(goes_on, reached.offsets)):
                    yield Finding(
                        NOT_REPLAYABLE_CHECKPOINT.at(
                            source.position,
                            sink=sink.name,
                            name=source.name,
                            connector=source.connector,
                            checkpoint=reached.checkpoint,
                        ),
                        sink=sink.name,
                    )
