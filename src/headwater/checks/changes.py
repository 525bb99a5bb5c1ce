"""Rules over what changed since the checkpoint was made."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.guarantees import known_sink
from headwater.checks.rules import Match, Severity, Situation, pipeline_rule, query_of
from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import ForgetsBatches
from headwater.errors import Entry
from headwater.errors.catalogue.connectors import SINK_CONNECTOR_CHANGED, SINK_LOG_PATH_INVALID
from headwater.plan import QueryFacts

Places = tuple[str, ...]


FROM_SCRATCH = (
    "Undo the change, or start from scratch: give the sink a new name and a new output path, or the pipeline "
    "a new run folder (`folder:`) and new output paths."
)
PROJECT_MOVED = Entry(
    "The project was moved from {old} to {new}; the query `{sink}` {says}.",
    "Move it back, or start from the beginning with a new run folder (`folder:`) and another output folder.",
    code="HW-PROJECT-MOVED",
)
SOURCE_PATH_CHANGED = Entry(
    "The source `{source}` of the query `{sink}` read {old} at its first start, and now {new}.",
    FROM_SCRATCH,
    code="HW-SOURCE-PATH-CHANGED",
)


@pipeline_rule(
    entries=[PROJECT_MOVED, SOURCE_PATH_CHANGED],
    example="""
        sources:
          orders: {connector: files, path: new_orders/, format: json, schema: {id: int}}   # it was orders/
    """,
    lasting=False,
)
def place_changed(situation: Situation) -> Iterator[Match]:
    """A checkpoint remembers the files it has read by their full paths, and a folder those that were written:
    elsewhere a query would read all again, or go on apart from its earlier rows."""
    positions = {source.name: source.position for source in situation.spec.sources}
    for sink, then, now in situation.resuming():
        says = moved(then, now)
        if says:
            yield Match.at(sink.position, sink=sink.name, old=then.root, new=now.root, says=says)
        for name, *places in () if says else _changed(then, now):
            (old, new), place = map(", ".join, places), positions.get(name)
            yield Match.at(place, entry=SOURCE_PATH_CHANGED, sink=sink.name, source=name, old=old, new=new)


@pipeline_rule(
    entries=[SINK_CONNECTOR_CHANGED],
    example="""
        sinks:
          totals: {reads: totals, connector: memory, mode: complete}   # it was foreach_batch
    """,
    lasting=False,
)
def sink_kind_changed(situation: Situation) -> Iterator[Match]:
    """A table in memory gets a new checkpoint at each start; other sinks keep theirs. A files sink has a log
    that must start with the first batch of the checkpoint."""
    for sink, then, now in situation.resuming():
        before, after = known_sink(then.connector), known_sink(now.connector)
        has_log = isinstance(after, ForgetsBatches)
        says = ""
        if after and after.in_process:
            says = "each start of it would remove the checkpoint"
        elif before and before.in_process:
            says = "it would go on after rows that were only in memory and are gone"
        elif has_log and sink.name in situation.reached:
            says = "its own log of batches must start with the first batch of the checkpoint"
        if says and then.connector != now.connector:
            place = sink.at("connector")
            yield Match.at(place, sink=sink.name, old=then.connector, new=now.connector, says=says)


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
    for sink, then, now in situation.resuming():
        before = {each.name: each for each in then.sources} if sink.name in situation.reached else {}
        place = query_of(situation.spec, now).source_at
        for source in now.sources:
            earlier = before.get(source.name)
            if earlier is None or earlier.connector != source.connector or not source.streaming:
                continue
            # The names of Spark's options have no case.
            was, is_ = ({key.lower(): each for key, each in one.options.items()} for one in (earlier, source))
            for key in source_side(source.connector).fixed_options:
                old, new = was.get(key.lower(), ""), is_.get(key.lower(), "")
                if old != new:
                    params = {"source": source.name, "key": key, "old": _set_to(old), "new": _set_to(new)}
                    yield Match(place(source.name, "options"), params, sink.name)


@pipeline_rule(
    "HW-SINK-OPTION-CHANGED",
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
    for sink, then, now in situation.resuming():
        for key, (old, new) in {} if moved(then, now) else changed_options(situation, sink.name).items():
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
    for sink, then, now in situation.resuming():
        if then.timezone != now.timezone:
            place = situation.spec.at("timezone")
            yield Match.at(place, sink=sink.name, old=then.timezone, new=now.timezone)


@pipeline_rule(
    "HW-SETTING-FROZEN",
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


SINK_TYPES_CHANGED = Entry(
    "The sink `{sink}` would write other types than its folder holds: {says}.",
    "Cast them back, or give the sink a new name and a new output path; it then starts from scratch.",
    code="HW-SINK-TYPES-CHANGED",
)
SINK_COLUMNS_CHANGED = Entry(
    "The sink `{sink}` would write other columns than its folder holds: {says}.",
    "Readers see nulls where a file has no such column. If that is not intended, give the sink a new name "
    "and a new output path; it then starts from scratch.",
    code="HW-SINK-COLUMNS-CHANGED",
)


@pipeline_rule(
    entries={SINK_TYPES_CHANGED: Severity.ERROR, SINK_COLUMNS_CHANGED: Severity.WARNING},
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
    for name, now in situation.facts.items():
        sink, then = situation.sink(name), situation.stored.get(name)
        side = sink_side(sink.connector)
        same_place = then and then.places in ((), now.places)
        held = now.held_schema or (then.output_schema if then and same_place else {})
        # What is added row by row has no schema of the whole.
        if not side.stores or side.appends or not held:
            continue
        before, after = (
            {key.lower(): type_ for key, type_ in each.items()} for each in (held, now.output_schema)
        )
        types = [
            f"`{key}` was {before[key]} and is {after[key]}"
            for key in before
            if key in after and before[key] != after[key]
        ]
        columns = [f"without `{key}`" for key in before if key not in after]
        columns += [f"with `{key}`" for key in after if key not in before]
        if types:
            yield Match.at(sink.position, sink=name, says=", ".join(types))
        elif columns:
            says = ", ".join(columns)
            yield Match.at(sink.position, entry=SINK_COLUMNS_CHANGED, sink=name, says=says)


def changed_options(situation: Situation, sink: str) -> dict[str, tuple[str, str]]:
    """The options of a sink that can't change once it has a batch and have, each as it was and as it is."""
    then, now = situation.stored.get(sink), situation.facts[sink]
    if then is None or then.connector != now.connector or sink not in situation.reached:
        return {}
    old, new = then.fixed_options, now.fixed_options
    return {key: (old[key], new[key]) for key in new if key in old and old[key] != new[key]}


def _set_to(value: str) -> str:
    return f"`{value}`" if value else "not set"


def moved(then: QueryFacts, now: QueryFacts) -> str:
    """What the move of the whole project does to a query, in words; nothing if it was not moved."""

    def along(old: Places, new: Places) -> bool:
        """Whether the new places are the old ones seen from the new root."""
        return tuple(place.replace(then.root, now.root, 1) for place in old) == new

    changed = _changed(then, now)
    if then.root == now.root or not all(along(old, new) for _, old, new in changed):
        return ""
    if changed:
        return "would read every file again"
    if then.places != now.places and along(then.places, now.places):
        old, new = ", ".join(then.places), ", ".join(now.places)
        return f"would write to {new}, and what it wrote before is on record at {old}"
    return ""


def _changed(then: QueryFacts, now: QueryFacts) -> list[tuple[str, Places, Places]]:
    """The streaming sources that are elsewhere than at the last start, with their places then and now."""
    before = {source.name: source.places for source in then.sources if source.streaming}
    both = ((each.name, before.get(each.name, each.places), each.places) for each in now.sources)
    return [each for each in both if each[1] != each[2]]


# Rules over what a sink's place holds, beside the checkpoint that is to go on with it.


@pipeline_rule(
    "HW-SINK-AHEAD-OF-CHECKPOINT",
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
        held, place = now.held_batch, ", ".join(now.places)
        if held is not None and held > (reached.batch if reached else -1):
            stands = f"stands at batch {reached.batch}" if reached else "has not begun"
            at = situation.sink(sink).position
            yield Match.at(at, sink=sink, place=place, held=held, stands=stands)


@pipeline_rule(
    entries=[SINK_LOG_PATH_INVALID],
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
        elsewhere = (then and moved(then, now)) or changed_options(situation, sink)
        if now.held_outside and not elsewhere:
            folder, place = ", ".join(now.places), situation.sink(sink).position
            yield Match.at(place, sink=sink, folder=folder, file=now.held_outside)


@pipeline_rule(
    "HW-SINK-OUTPUT-UNREADABLE",
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
        if now.held_unreadable and not now.held_outside and not changed_options(situation, sink):
            place, says = ", ".join(now.places), now.held_unreadable
            yield Match.at(situation.sink(sink).position, sink=sink, place=place, says=says)


@pipeline_rule(
    "HW-QUERY-METADATA-MISSING",
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
