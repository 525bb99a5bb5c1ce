"""Rules over what changed since the checkpoint was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.connectors import sink_side
from headwater.errors.catalogue.running import (
    MOVED,
    OUTPUT_COLUMNS_CHANGED,
    OUTPUT_TYPE_CHANGED,
    PLACE_CHANGED,
    SETTING_KEPT,
    TIMEZONE_CHANGED,
)
from headwater.plan import QueryFacts
from headwater.spec import PipelineSpec


class PlaceChanged(Rule):
    """A checkpoint remembers the files it has read by their full paths: elsewhere it would read all again."""

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink, now in situation.facts.items():
            then = situation.stored.get(sink)
            if then:
                yield from self._compare(situation.spec, then, now)

    def _compare(self, spec: PipelineSpec, then: QueryFacts, now: QueryFacts) -> Iterator[Finding]:
        positions = {source.name: source.position for source in spec.sources}
        before = {source.name: source for source in then.sources if source.streaming}
        changed = [
            source
            for source in now.sources
            if source.name in before and before[source.name].places != source.places
        ]
        if changed and then.root != now.root and all(_moved_along(then, now, s.name) for s in changed):
            yield Finding(MOVED.at(spec.position, sink=now.sink, old=then.root, new=now.root), sink=now.sink)
            return
        for source in changed:
            old, new = ", ".join(before[source.name].places), ", ".join(source.places)
            problem = PLACE_CHANGED.at(
                positions.get(source.name), sink=now.sink, source=source.name, old=old, new=new
            )
            yield Finding(problem, sink=now.sink)


class TimezoneChanged(Rule):
    """Spark does not freeze the time zone: windows by day would silently change their edges."""

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink, now in situation.facts.items():
            then = situation.stored.get(sink)
            if then and then.timezone != now.timezone:
                problem = TIMEZONE_CHANGED.at(
                    situation.spec.position, sink=sink, old=then.timezone, new=now.timezone
                )
                yield Finding(problem, sink=sink)


class SettingKept(Rule):
    """Some settings freeze in the checkpoint at the first start: another value later has no effect."""

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink, now in situation.facts.items():
            for key, wanted in now.passed_over.items():
                problem = SETTING_KEPT.at(
                    situation.spec.position, sink=sink, key=key, kept=now.settings[key], wanted=wanted
                )
                yield Finding(problem, Severity.WARNING, sink)


class OutputSchemaChanged(Rule):
    """A folder of files has one schema for its readers; rows of another one are nulls or failures to them."""

    def findings(self, situation: Situation) -> Iterator[Finding]:
        positions = {sink.name: sink.position for sink in situation.spec.sinks}
        keeping = {sink.name for sink in situation.spec.sinks if sink_side(sink.connector).stores}
        for sink, now in situation.facts.items():
            then = situation.stored.get(sink)
            held = now.held_schema or (then.output_schema if then else {})
            if sink not in keeping or not held:
                continue
            differs = _differences(held, now)
            types = [difference for difference in differs if difference.startswith("`")]
            if types:
                problem = OUTPUT_TYPE_CHANGED.at(positions[sink], sink=sink, says=", ".join(types))
                yield Finding(problem, Severity.ERROR, sink)
            elif differs:
                problem = OUTPUT_COLUMNS_CHANGED.at(positions[sink], sink=sink, says=", ".join(differs))
                yield Finding(problem, Severity.WARNING, sink)


def _differences(held: Mapping[str, str], now: QueryFacts) -> list[str]:
    """Changed types first, in words; then columns that came and went."""
    output = {name.lower(): type_ for name, type_ in now.output_schema.items()}
    before = {name.lower(): type_ for name, type_ in held.items()}
    changed = [
        f"`{name}` was {before[name]} and is {output[name]}"
        for name in before
        if name in output and before[name] != output[name]
    ]
    gone = [f"without `{name}`" for name in before if name not in output]
    new = [f"with `{name}`" for name in output if name not in before]
    return changed + gone + new


def _moved_along(then: QueryFacts, now: QueryFacts, name: str) -> bool:
    """Whether a source's places are the old ones seen from the new root."""
    old = next(source.places for source in then.sources if source.name == name)
    new = next(source.places for source in now.sources if source.name == name)
    return tuple(place.replace(then.root, now.root, 1) for place in old) == new
