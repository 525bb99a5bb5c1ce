"""Rules over what changed since the checkpoint was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.connectors import all_connectors, sink_side
from headwater.errors.catalogue.memory import SINK_KIND_CHANGED
from headwater.errors.catalogue.running import (
    MOVED,
    OUTPUT_COLUMNS_CHANGED,
    OUTPUT_TYPE_CHANGED,
    PLACE_CHANGED,
    SETTING_KEPT,
    TIMEZONE_CHANGED,
)
from headwater.plan import QueryFacts, SourceFacts
from headwater.spec import PipelineSpec


class PlaceChanged(Rule):
    """A checkpoint remembers the files it has read by their full paths, and a folder those that were written:
    elsewhere a query would read all again, or go on apart from its earlier rows."""

    entries = {MOVED: Severity.ERROR, PLACE_CHANGED: Severity.ERROR}
    example = """
        sources:
          orders: {connector: files, path: new_orders/, format: json, schema: {id: int}}   # it was orders/
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink, now in situation.facts.items():
            then = situation.stored.get(sink)
            if then:
                yield from self._compare(situation.spec, then, now)

    def _compare(self, spec: PipelineSpec, then: QueryFacts, now: QueryFacts) -> Iterator[Finding]:
        positions = {source.name: source.position for source in spec.sources}
        before = {source.name: source for source in then.sources if source.streaming}
        says = moved(then, now)
        if says:
            place = next(sink.position for sink in spec.sinks if sink.name == now.sink)
            problem = MOVED.at(place, sink=now.sink, old=then.root, new=now.root, says=says)
            yield Finding(problem, sink=now.sink)
            return
        for source in _changed(then, now):
            old, new = ", ".join(before[source.name].places), ", ".join(source.places)
            problem = PLACE_CHANGED.at(
                positions.get(source.name), sink=now.sink, source=source.name, old=old, new=new
            )
            yield Finding(problem, sink=now.sink)


class SinkKindChanged(Rule):
    """A table in memory begins anew at each start, and its checkpoint with it; that of others must stay."""

    entries = {SINK_KIND_CHANGED: Severity.ERROR}
    example = """
        sinks:
          totals: {reads: totals, connector: memory, mode: complete}   # it was foreach_batch
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        positions = {sink.name: sink.at("connector") for sink in situation.spec.sinks}
        for sink, now in situation.facts.items():
            then = situation.stored.get(sink)
            if then is None or then.connector == now.connector:
                continue
            if _in_process(now.connector):
                says = "each start of it would remove the checkpoint"
            elif _in_process(then.connector):
                says = "it would go on after rows that were only in memory and are gone"
            else:
                continue
            problem = SINK_KIND_CHANGED.at(
                positions[sink], sink=sink, old=then.connector, new=now.connector, says=says
            )
            yield Finding(problem, sink=sink)


class TimezoneChanged(Rule):
    """Spark does not freeze the time zone: windows by day would silently change their edges."""

    entries = {TIMEZONE_CHANGED: Severity.ERROR}
    example = """
        name: orders
        timezone: Europe/Berlin   # it was UTC
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink, now in situation.facts.items():
            then = situation.stored.get(sink)
            if then and then.timezone != now.timezone:
                problem = TIMEZONE_CHANGED.at(
                    situation.spec.at("timezone"), sink=sink, old=then.timezone, new=now.timezone
                )
                yield Finding(problem, sink=sink)


class SettingKept(Rule):
    """Some settings freeze in the checkpoint at the first start: another value later has no effect."""

    entries = {SETTING_KEPT: Severity.WARNING}
    example = """
        spark: {spark.sql.shuffle.partitions: 8}   # the first start was with 2
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink, now in situation.facts.items():
            for key, wanted in now.passed_over.items():
                place = situation.spec.setting_place(key, wanted)
                problem = SETTING_KEPT.at(place, sink=sink, key=key, kept=now.settings[key], wanted=wanted)
                yield Finding(problem, Severity.WARNING, sink)


class OutputSchemaChanged(Rule):
    """A folder of files has one schema for its readers; rows of another one are nulls or failures to them."""

    entries = {OUTPUT_TYPE_CHANGED: Severity.ERROR, OUTPUT_COLUMNS_CHANGED: Severity.WARNING}
    example = """
        tables:
          totals: SELECT id, CAST(amount AS bigint) AS amount FROM orders   # amount was double
        sinks:
          totals: {reads: totals, connector: files, path: out/, format: parquet}
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        positions = {sink.name: sink.position for sink in situation.spec.sinks}
        sides = {sink.name: sink_side(sink.connector) for sink in situation.spec.sinks}
        # What is added row by row has no schema of the whole.
        keeping = {name for name, side in sides.items() if side.stores and not side.appends}
        for sink, now in situation.facts.items():
            then = situation.stored.get(sink)
            same_place = then and then.places in ((), now.places)
            held = now.held_schema or (then.output_schema if then and same_place else {})
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


def _in_process(connector: str) -> bool:
    """Whether a sink of this kind keeps its rows in the process; one that is not installed is none."""
    known = all_connectors().get(connector)
    return bool(known and known.sink and known.sink.in_process)


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


def moved(then: QueryFacts, now: QueryFacts) -> str:
    """What the move of the whole project does to a query, in words; nothing if it was not moved."""
    before = {source.name: source.places for source in then.sources}
    changed = _changed(then, now)

    def along(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
        """Whether the new places are the old ones seen from the new root."""
        return tuple(place.replace(then.root, now.root, 1) for place in old) == new

    if then.root == now.root or not all(along(before[each.name], each.places) for each in changed):
        return ""
    if changed:
        return "would read every file again"
    if then.places != now.places and along(then.places, now.places):
        old, new = ", ".join(then.places), ", ".join(now.places)
        return f"would write to {new}, and what it wrote before is on record at {old}"
    return ""


def _changed(then: QueryFacts, now: QueryFacts) -> list[SourceFacts]:
    """The streaming sources that are elsewhere than at the last start."""
    before = {source.name: source.places for source in then.sources if source.streaming}
    return [each for each in now.sources if before.get(each.name, each.places) != each.places]
