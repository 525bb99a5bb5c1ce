"""Rules over what changed since the checkpoint was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.checks.guarantees import known_sink
from headwater.checks.rules import Match, Severity, Situation, pipeline_rule, query_of
from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import ForgetsBatches
from headwater.connectors.files.errors import FILE_OUTSIDE_FOLDER
from headwater.errors import Entry
from headwater.errors.catalogue.connectors import SINK_KIND_CHANGED
from headwater.plan import QueryFacts, SourceFacts

FROM_SCRATCH = (
    "Undo the change, or start from scratch: give the sink a new name and a new output path, or the pipeline "
    "a new run folder (`folder:`) and new output paths."
)
MOVED = Entry(
    "The project was moved from {old} to {new}; the query `{sink}` {says}.",
    "Move it back, or start from the beginning with a new run folder (`folder:`) and another output folder.",
    code="HW-MOVED",
)
PLACE_CHANGED = Entry(
    "The source `{source}` of the query `{sink}` read {old} at its first start, and now {new}.",
    "Undo the change, or start from scratch: give the sink a new name and a new output path, or the pipeline "
    "a new run folder (`folder:`) and new output paths.",
    code="HW-PLACE-CHANGED",
)


@pipeline_rule(
    entries=[MOVED, PLACE_CHANGED],
    example="""
        sources:
          orders: {connector: files, path: new_orders/, format: json, schema: {id: int}}   # it was orders/
    """,
    lasting=False,
)
def place_changed(situation: Situation) -> Iterator[Match]:
    """A checkpoint remembers the files it has read by their full paths, and a folder those that were written:
    elsewhere a query would read all again, or go on apart from its earlier rows."""
    for sink, now in situation.facts.items():
        then = situation.stored.get(sink)
        if then:
            yield from _compare(situation, then, now)


def _compare(situation: Situation, then: QueryFacts, now: QueryFacts) -> Iterator[Match]:
    positions = {source.name: source.position for source in situation.spec.sources}
    before = {source.name: source for source in then.sources if source.streaming}
    says = moved(then, now)
    if says:
        yield Match.at(
            situation.sink(now.sink).position, sink=now.sink, old=then.root, new=now.root, says=says
        )
        return
    for source in _changed(then, now):
        old, new = ", ".join(before[source.name].places), ", ".join(source.places)
        place = positions.get(source.name)
        yield Match.at(place, entry=PLACE_CHANGED, sink=now.sink, source=source.name, old=old, new=new)


@pipeline_rule(
    entries=[SINK_KIND_CHANGED],
    example="""
        sinks:
          totals: {reads: totals, connector: memory, mode: complete}   # it was foreach_batch
    """,
    lasting=False,
)
def sink_kind_changed(situation: Situation) -> Iterator[Match]:
    """A table in memory gets a new checkpoint at each start; other sinks keep theirs. A files sink has a log
    that must start with the first batch of the checkpoint."""
    for sink, now in situation.facts.items():
        then = situation.stored.get(sink)
        if then is None or then.connector == now.connector:
            continue
        if _in_process(now.connector):
            says = "each start of it would remove the checkpoint"
        elif _in_process(then.connector):
            says = "it would go on after rows that were only in memory and are gone"
        elif _passes_over(now.connector) and sink in situation.reached:
            says = "its own log of batches must start with the first batch of the checkpoint"
        else:
            continue
        place = situation.sink(sink).at("connector")
        yield Match.at(place, sink=sink, old=then.connector, new=now.connector, says=says)


@pipeline_rule(
    "HW-SOURCE-OPTION-CHANGED",
    "The query `{sink}` cannot resume from its checkpoint: the option `{key}` of the source `{source}` was "
    "{old}, and is now {new}. Files that the source ignored before count as read.",
    FROM_SCRATCH,
    example="""
        sources:
          orders:   # it had no options
            connector: files
            path: orders/
            format: json
            schema: {id: int}
            options: {recursiveFileLookup: true}
    """,
    lasting=False,
)
def source_option_changed(situation: Situation) -> Iterator[Match]:
    """A query counts files in ignored directories as read: with another option it would never read them."""
    for sink, now in situation.facts.items():
        then = situation.stored.get(sink)
        before = {each.name: each for each in then.sources} if then and sink in situation.reached else {}
        query = query_of(situation.spec, now)
        for source in now.sources:
            old = before.get(source.name)
            if old is None or old.connector != source.connector or not source.streaming:
                continue
            for key in source_side(source.connector).fixed_options:
                was, is_ = (_option(each, key) for each in (old, source))
                if was != is_:
                    place = query.source_at(source.name, "options")
                    old_value, new_value = _set_to(was), _set_to(is_)
                    yield Match.at(
                        place, sink=sink, source=source.name, key=key, old=old_value, new=new_value
                    )


@pipeline_rule(
    "HW-OUTPUT-CHANGED",
    "The query `{sink}` cannot resume from its checkpoint: `{key}` of the sink was {old}, and is now {new}.",
    FROM_SCRATCH,
    example="""
        sinks:
          totals: {reads: totals, connector: files, path: out/, format: json}   # it was parquet
    """,
    lasting=False,
)
def output_changed(situation: Situation) -> Iterator[Match]:
    """Some keys of a sink can't change while its checkpoint is kept: the log in the folder of a files sink
    starts with the first batch of the checkpoint, and its readers expect one format."""
    for sink in situation.spec.sinks:
        then, now = situation.stored.get(sink.name), situation.facts.get(sink.name)
        if then is None or now is None or moved(then, now):
            continue
        for key, (old, new) in changed_options(situation, sink.name).items():
            yield Match.at(sink.at(key), sink=sink.name, key=key, old=_set_to(old), new=_set_to(new))


@pipeline_rule(
    "HW-TIMEZONE-CHANGED",
    "The query `{sink}` was started in time zone {old}, and the pipeline now says {new}.",
    "Change `timezone:` back, or start from the beginning with a new run folder (`folder:`) and another "
    "output folder.",
    example="""
        name: orders
        timezone: Europe/Berlin   # it was UTC
    """,
    lasting=False,
)
def timezone_changed(situation: Situation) -> Iterator[Match]:
    """Spark does not freeze the time zone: windows by day would silently change their edges."""
    for sink, now in situation.facts.items():
        then = situation.stored.get(sink)
        if then and then.timezone != now.timezone:
            yield Match.at(situation.spec.at("timezone"), sink=sink, old=then.timezone, new=now.timezone)


@pipeline_rule(
    "HW-SETTING-KEPT",
    "The query `{sink}` keeps `{key}: {kept}` from its first start; `{wanted}` is not used.",
    "Take the setting out, or start from the beginning with a new run folder (`folder:`) and another output "
    "folder.",
    Severity.WARNING,
    example="""
        spark: {spark.sql.shuffle.partitions: 8}   # the first start was with 2
    """,
    lasting=False,
)
def setting_kept(situation: Situation) -> Iterator[Match]:
    """Some settings freeze in the checkpoint at the first start: another value later has no effect."""
    for sink, now in situation.facts.items():
        for key, wanted in now.passed_over.items():
            place = situation.spec.setting_place(key, wanted)
            yield Match.at(place, sink=sink, key=key, kept=now.settings[key], wanted=wanted)


OUTPUT_TYPE_CHANGED = Entry(
    "The sink `{sink}` would write other types than its folder holds: {says}.",
    "Cast them back, or give the sink a new name and a new output path; it then starts from scratch.",
    code="HW-OUTPUT-TYPE-CHANGED",
)
OUTPUT_COLUMNS_CHANGED = Entry(
    "The sink `{sink}` would write other columns than its folder holds: {says}.",
    "Readers see nulls where a file has no such column. If that is not intended, give the sink a new name "
    "and a new output path; it then starts from scratch.",
    code="HW-OUTPUT-COLUMNS-CHANGED",
)


@pipeline_rule(
    entries={OUTPUT_TYPE_CHANGED: Severity.ERROR, OUTPUT_COLUMNS_CHANGED: Severity.WARNING},
    example="""
        tables:
          totals: SELECT id, CAST(amount AS bigint) AS amount FROM orders   # amount was double
        sinks:
          totals: {reads: totals, connector: files, path: out/, format: parquet}
    """,
    lasting=False,
)
def output_schema_changed(situation: Situation) -> Iterator[Match]:
    """A folder of files has one schema for its readers; rows of another one are nulls or failures to them."""
    sides = {sink.name: sink_side(sink.connector) for sink in situation.spec.sinks}
    # What is added row by row has no schema of the whole.
    keeping = {name for name, side in sides.items() if side.stores and not side.appends}
    for sink, now in situation.facts.items():
        then = situation.stored.get(sink)
        same_place = then and then.places in ((), now.places)
        held = now.held_schema or (then.output_schema if then and same_place else {})
        if sink not in keeping or not held:
            continue
        differs, place = _differences(held, now), situation.sink(sink).position
        types = [difference for difference in differs if difference.startswith("`")]
        if types:
            yield Match.at(place, sink=sink, says=", ".join(types))
        elif differs:
            yield Match.at(place, entry=OUTPUT_COLUMNS_CHANGED, sink=sink, says=", ".join(differs))


def changed_options(situation: Situation, sink: str) -> dict[str, tuple[str, str]]:
    """The options of a sink that can't change once it has a batch and have, each as it was and as it is."""
    then, now = situation.stored.get(sink), situation.facts[sink]
    if then is None or then.connector != now.connector or sink not in situation.reached:
        return {}
    both = then.fixed_options.keys() & now.fixed_options.keys()
    pairs = {
        key: (then.fixed_options[key], now.fixed_options[key]) for key in now.fixed_options if key in both
    }
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _option(source: SourceFacts, key: str) -> str:
    """The value of an option of Spark, whose names have no case."""
    return next((value for name, value in source.options.items() if name.lower() == key.lower()), "")


def _set_to(value: str) -> str:
    return f"`{value}`" if value else "not set"


def _in_process(connector: str) -> bool:
    """Whether a sink of this kind keeps its rows in the process."""
    side = known_sink(connector)
    return side is not None and side.in_process


def _passes_over(connector: str) -> bool:
    """Whether a sink of this kind skips the batches that its own log has."""
    return isinstance(known_sink(connector), ForgetsBatches)


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


# Rules over what a sink's place holds, beside the checkpoint that is to go on with it.


@pipeline_rule(
    "HW-OUTPUT-AHEAD",
    "{place} has the batches up to {held} of an earlier checkpoint, and the one of `{sink}` {stands}: Spark "
    "would pass over its batches up to {held}, and their rows would be lost.",
    "Give the sink a new name and a new output path, or remove {place} with its _spark_metadata, or restore "
    "the old checkpoint.",
    example="""
        $ headwater run pipeline.yml --until-idle
        $ rm -r .headwater
        $ headwater run pipeline.yml --until-idle
    """,
    lasting=False,
)
def output_ahead(situation: Situation) -> Iterator[Match]:
    """A place that has noted a batch passes it over: under a checkpoint that counts anew, rows are lost."""
    for sink, now in situation.facts.items():
        reached = situation.reached.get(sink)
        if now.held_batch is None or now.held_batch <= (reached.batch if reached else -1):
            continue
        stands = f"stands at batch {reached.batch}" if reached else "has not begun"
        yield Match.at(
            situation.sink(sink).position,
            sink=sink,
            place=", ".join(now.places),
            held=now.held_batch,
            stands=stands,
        )


@pipeline_rule(
    entries=[FILE_OUTSIDE_FOLDER],
    example="""
        $ headwater run pipeline.yml --until-idle
        $ mv out elsewhere
        $ sed -i 's/out/elsewhere/' pipeline.yml
        $ headwater run pipeline.yml --until-idle
    """,
    lasting=False,
)
def output_misplaced(situation: Situation) -> Iterator[Match]:
    """The log of a folder holds whole paths: of a moved folder it names the old place to readers."""
    for sink, now in situation.facts.items():
        then = situation.stored.get(sink)
        # Where the project was moved, or the path was changed, that is the error.
        elsewhere = then is not None and bool(moved(then, now))
        if now.held_outside and not elsewhere and not changed_options(situation, sink):
            folder = ", ".join(now.places)
            place = situation.sink(sink).position
            yield Match.at(place, sink=sink, folder=folder, file=now.held_outside)


@pipeline_rule(
    "HW-OUTPUT-UNREADABLE",
    "What the sink `{sink}` wrote before can't be read: {says}.",
    "The query can continue, but readers of {place} fail too: restore the file, or give the sink a new name "
    "and a new output path.",
    Severity.WARNING,
    example="""
        $ headwater run pipeline.yml --until-idle
        $ rm out/part-*
        $ headwater run pipeline.yml --until-idle
    """,
    lasting=False,
)
def output_unreadable(situation: Situation) -> Iterator[Match]:
    """A file that is gone or damaged stops the readers of a folder; the query itself does not need it."""
    for sink, now in situation.facts.items():
        if changed_options(situation, sink):
            continue
        if now.held_unreadable and not now.held_outside:
            place, says = ", ".join(now.places), now.held_unreadable
            yield Match.at(situation.sink(sink).position, sink=sink, place=place, says=says)


@pipeline_rule(
    "HW-FACTS-GONE",
    "The query `{sink}` has a checkpoint ({checkpoint}) but no facts: its places, time zone and columns are "
    "not compared with those of its last start.",
    "Put facts/{sink}.json back, or see that they are as they were; frozen settings are taken from the "
    "checkpoint.",
    Severity.WARNING,
    example="""
        $ headwater run pipeline.yml --until-idle
        $ rm -r .headwater/facts
        $ headwater run pipeline.yml --until-idle
    """,
    lasting=False,
)
def facts_gone(situation: Situation) -> Iterator[Match]:
    """Without the facts of the last start nothing tells whether the query is still the same."""
    for sink in situation.facts:
        reached = situation.reached.get(sink)
        if reached and sink not in situation.stored:
            yield Match.at(situation.sink(sink).position, sink=sink, checkpoint=reached.checkpoint)
