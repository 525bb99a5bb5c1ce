"""Rules about changes since the last start of a query."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.guarantees import known_sink
from headwater.checks.rules import Match, Severity, Situation, pipeline_rule, query_of
from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import ForgetsBatches
from headwater.errors import Entry
from headwater.errors.catalogue.connectors import SINK_CONNECTOR_CHANGED, SINK_LOG_PATH_INVALID
from headwater.plan import QueryFacts
from headwater.spec import SinkSpec

Places = tuple[str, ...]


FROM_SCRATCH = (
    "Undo the change. Or start from scratch: rename the sink and set a new output path, or set a new `run_dir` "
    "and new output paths for the whole pipeline."
)
PROJECT_MOVED = Entry(
    "Query `{sink}`: the project directory moved from {old} to {new}. The query {says}.",
    "Move the project back, or start from scratch: set a new run directory (`run_dir:`) and new output "
    "paths.",
    code="HW-PROJECT-MOVED",
)
SOURCE_PATH_CHANGED = Entry(
    "Query `{sink}` cannot resume from its checkpoint: source `{source}` read {old}, and now reads {new}.",
    FROM_SCRATCH,
    code="HW-SOURCE-PATH-CHANGED",
)


@pipeline_rule(
    entries=[PROJECT_MOVED, SOURCE_PATH_CHANGED],
    example="""
        sources:
          orders: {connector: files, path: new_orders/, format: json, schema: {id: int}}   # before: orders/
    """,
    lasting=False,
)
def source_path_changed(situation: Situation) -> Iterator[Match]:
    """A checkpoint identifies files by their absolute paths, and so does the log of a `files` sink. If a path
    changes, the query would read every file again, or write its new rows apart from the earlier ones."""
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
          totals: {reads: totals, connector: memory, mode: complete}   # before: foreach_batch
    """,
    lasting=False,
)
def sink_connector_changed(situation: Situation) -> Iterator[Match]:
    """A memory table gets a new checkpoint at each start, but other sinks keep theirs. A `files` sink has a
    log that must start with the first batch of the checkpoint. So a sink cannot switch between them."""
    for sink, then, now in situation.resuming():
        before, after = known_sink(then.connector), known_sink(now.connector)
        has_log = isinstance(after, ForgetsBatches)
        says = ""
        if after and after.in_process:
            says = "each start would delete the checkpoint"
        elif before and before.in_process:
            says = "it would skip the rows that were only in memory and are lost"
        elif has_log and not sink.group and sink.name in situation.reached:
            says = "its log must start with the first batch of the checkpoint"
        if says and then.connector != now.connector:
            place = sink.at("connector")
            yield Match.at(place, sink=sink.name, old=f"`{then.connector}`", new=now.connector, says=says)


@pipeline_rule(
    "HW-SOURCE-OPTION-CHANGED",
    "Query `{sink}` cannot resume from its checkpoint: option `{key}` of source `{source}` was {old}, and is "
    "now {new}. Spark treats the files that the source ignored before as already read.",
    FROM_SCRATCH,
    example="""
        sources:
          orders:   # before: no options
            connector: files
            path: orders/
            format: json
            schema: {id: int}
            options: {recursiveFileLookup: true}
    """,
    lasting=False,
)
def source_option_changed(situation: Situation) -> Iterator[Match]:
    """Spark treats files in ignored directories as already read. If the option changes later, the query never
    reads them."""
    for sink, then, now in situation.resuming():
        before = {each.name: each for each in then.sources} if sink.name in situation.reached else {}
        place = query_of(situation.spec, now).source_at
        for source in now.sources:
            earlier = before.get(source.name)
            if earlier is None or earlier.connector != source.connector or not source.streaming:
                continue
            # The names of Spark options are case-insensitive.
            was, is_ = ({key.lower(): each for key, each in one.options.items()} for one in (earlier, source))
            for key in source_side(source.connector).fixed_options:
                old, new = was.get(key.lower(), ""), is_.get(key.lower(), "")
                if old != new:
                    params = {"source": source.name, "key": key, "old": _set_to(old), "new": _set_to(new)}
                    yield Match(place(source.name, "options"), params, sink.name)


@pipeline_rule(
    "HW-SINK-OPTION-CHANGED",
    "Query `{sink}` cannot resume from its checkpoint: `{key}` of the sink was {old}, and is now {new}.",
    FROM_SCRATCH,
    example="""
        sinks:
          totals: {reads: totals, connector: files, path: out/, format: json}   # before: parquet
    """,
    lasting=False,
)
def sink_option_changed(situation: Situation) -> Iterator[Match]:
    """Some keys of a sink must not change as long as its checkpoint exists. The log in the directory of a
    `files` sink starts with the first batch of the checkpoint, and its readers expect one format."""
    for sink, then, now in situation.resuming():
        for key, (old, new) in {} if moved(then, now) else changed_options(situation, sink.name).items():
            yield Match.at(sink.at(key), sink=sink.name, key=key, old=_set_to(old), new=_set_to(new))


@pipeline_rule(
    "HW-TIMEZONE-CHANGED",
    "Query `{sink}` cannot resume from its checkpoint: its time zone was {old}, and is now {new}.",
    "Restore `timezone: {old}`, or start from scratch: set a new run directory (`run_dir:`) and new output "
    "paths.",
    example="""
        name: orders
        timezone: Europe/Berlin   # before: UTC
    """,
    lasting=False,
)
def timezone_changed(situation: Situation) -> Iterator[Match]:
    """Spark does not store the time zone in the checkpoint. If it changes, daily windows silently start and
    end at different times."""
    for sink, then, now in situation.resuming():
        if then.timezone != now.timezone:
            place = situation.spec.at("timezone")
            yield Match.at(place, sink=sink.name, old=then.timezone, new=now.timezone)


@pipeline_rule(
    "HW-SETTING-FROZEN",
    "Query `{sink}` ignores `{key}: {wanted}` and uses `{kept}` from its checkpoint: Spark stores this "
    "setting at the first start.",
    "Remove the setting, or start from scratch: set a new run directory (`run_dir:`) and new output paths.",
    Severity.WARNING,
    example="""
        spark: {spark.sql.shuffle.partitions: 8}   # first start: 2
    """,
    lasting=False,
)
def setting_frozen(situation: Situation) -> Iterator[Match]:
    """Spark stores some settings in the checkpoint at the first start. A different value has no effect
    later."""
    for sink, now in situation.facts.items():
        for key, wanted in now.passed_over.items():
            place = situation.spec.setting_place(key, wanted)
            yield Match.at(place, sink=sink, key=key, kept=now.settings[key], wanted=wanted)


SINK_TYPES_CHANGED = Entry(
    "Sink `{sink}`: column types do not match the existing output: {says}.",
    "Cast the columns to their old types, or start from scratch: give the sink a new name and a new output "
    "path.",
    code="HW-SINK-TYPES-CHANGED",
)
SINK_COLUMNS_CHANGED = Entry(
    "Sink `{sink}`: columns do not match the existing output: {says}. Readers see null in files without a "
    "column.",
    "Restore the columns, or start from scratch: give the sink a new name and a new output path. If readers "
    "handle nulls, suppress this warning.",
    code="HW-SINK-COLUMNS-CHANGED",
)


@pipeline_rule(
    entries={SINK_TYPES_CHANGED: Severity.ERROR, SINK_COLUMNS_CHANGED: Severity.WARNING},
    example="""
        tables:
          totals: SELECT id, CAST(amount AS bigint) AS amount FROM orders   # before: double
        sinks:
          totals: {reads: totals, connector: files, path: out/, format: parquet}
    """,
    lasting=False,
)
def sink_schema_changed(situation: Situation) -> Iterator[Match]:
    """Readers of a directory expect one schema. Files with different columns or types return nulls or fail to
    read."""
    for name, now in situation.facts.items():
        sink, then = situation.sink(name), situation.stored.get(name)
        side = sink_side(sink.connector)
        same_place = then and then.places in ((), now.places)
        held = now.held_schema or (then.output_schema if then and same_place else {})
        # A sink that appends single rows has no schema of the whole, and one that writes a table compares it itself.
        if not side.stores or side.appends or side.writes_in_place or not held:
            continue
        before, after = (
            {key.lower(): type_ for key, type_ in each.items()} for each in (held, now.output_schema)
        )
        types = [
            f"`{key}` was {before[key]} and is now {after[key]}"
            for key in before
            if key in after and before[key] != after[key]
        ]
        columns = [f"`{key}` was removed" for key in before if key not in after]
        columns += [f"`{key}` was added" for key in after if key not in before]
        if types:
            yield Match.at(sink.position, sink=name, says=", ".join(types))
        elif columns:
            says = ", ".join(columns)
            yield Match.at(sink.position, entry=SINK_COLUMNS_CHANGED, sink=name, says=says)


def changed_options(situation: Situation, sink: str) -> dict[str, tuple[str, str]]:
    """The fixed options of a sink that changed after its first batch, each with the old and the new value."""
    then, now = situation.stored.get(sink), situation.facts[sink]
    if then is None or then.connector != now.connector or sink not in situation.reached:
        return {}
    old, new = then.fixed_options, now.fixed_options
    return {key: (old[key], new[key]) for key in new if key in old and old[key] != new[key]}


def _set_to(value: str) -> str:
    return f"`{value}`" if value else "not set"


def moved(then: QueryFacts, now: QueryFacts) -> str:
    """What moving the project directory does to a query, as text; empty if it did not move."""

    def along(old: Places, new: Places) -> bool:
        """Whether the new paths are the old ones relative to the new root."""
        return tuple(place.replace(then.root, now.root, 1) for place in old) == new

    changed = _changed(then, now)
    if then.root == now.root or not all(along(old, new) for _, old, new in changed):
        return ""
    if changed:
        return "would read every file again"
    if then.places != now.places and along(then.places, now.places):
        old, new = ", ".join(then.places), ", ".join(now.places)
        return f"would write to {new}, but the log of the sink refers to {old}"
    return ""


def _changed(then: QueryFacts, now: QueryFacts) -> list[tuple[str, Places, Places]]:
    """The streaming sources whose paths changed since the last start, with the old and the new paths."""
    before = {source.name: source.places for source in then.sources if source.streaming}
    both = ((each.name, before.get(each.name, each.places), each.places) for each in now.sources)
    return [each for each in both if each[1] != each[2]]


def joins_group(situation: Situation, sink: SinkSpec) -> bool:
    """Whether a sink is new in a group whose query has been started before."""
    others = (each.name for each in situation.spec.query(sink.query).sinks)
    joined = sink.group and sink.name in situation.reached and sink.name not in situation.stored
    return bool(joined) and any(name in situation.stored for name in others)


# Rules about the existing output of a sink compared with its checkpoint.


@pipeline_rule(
    "HW-SINK-AHEAD-OF-CHECKPOINT",
    "Sink `{sink}`: {place} contains batches up to {held} from an earlier checkpoint, but the current "
    "checkpoint {stands}. Spark would skip new batches up to {held} and lose their rows.",
    "Restore the old checkpoint, give the sink a new name and a new output path, or delete {place} including "
    "`_spark_metadata`.",
    example="""
        $ headwater run pipeline.yml --until-idle
        $ rm -r .headwater
        $ headwater run pipeline.yml --until-idle
    """,
    lasting=False,
)
def sink_ahead_of_checkpoint(situation: Situation) -> Iterator[Match]:
    """A `files` sink skips batches that its log already contains. If the checkpoint was deleted, batch
    numbers start at 0 again, and the sink loses the rows of every batch it skips."""
    for sink, now in situation.facts.items():
        reached = situation.reached.get(sink)
        held, place = now.held_batch, ", ".join(now.places)
        if held is not None and held > (reached.batch if reached else -1):
            stands = f"is at batch {reached.batch}" if reached else "is empty"
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
def sink_log_path_invalid(situation: Situation) -> Iterator[Match]:
    """The log of a `files` sink contains absolute paths. If the directory moves, its readers look for the
    files at the old path."""
    for sink, now in situation.facts.items():
        then = situation.stored.get(sink)
        # If the project moved or the path changed, that is the error.
        elsewhere = (then and moved(then, now)) or changed_options(situation, sink)
        if now.held_outside and not elsewhere:
            folder, place = ", ".join(now.places), situation.sink(sink).position
            yield Match.at(place, sink=sink, folder=folder, file=now.held_outside)


@pipeline_rule(
    "HW-SINK-OUTPUT-UNREADABLE",
    "Sink `{sink}`: could not read the existing output: {says}. The query can continue, but readers of "
    "{place} fail.",
    "Restore the file, or give the sink a new name and a new output path.",
    Severity.WARNING,
    example="""
        $ headwater run pipeline.yml --until-idle
        $ rm out/part-*
        $ headwater run pipeline.yml --until-idle
    """,
    lasting=False,
)
def sink_output_unreadable(situation: Situation) -> Iterator[Match]:
    """A missing or corrupt file makes the readers of a directory fail. The query itself does not need it."""
    for sink, now in situation.facts.items():
        if now.held_unreadable and not now.held_outside and not changed_options(situation, sink):
            place, says = ", ".join(now.places), now.held_unreadable
            yield Match.at(situation.sink(sink).position, sink=sink, place=place, says=says)


@pipeline_rule(
    "HW-QUERY-METADATA-MISSING",
    "Query `{sink}` has a checkpoint ({checkpoint}) but no metadata. Headwater cannot compare its paths, "
    "time zone and columns with the last start.",
    "Restore `queries/{sink}.json` in the run directory, or make sure that paths, time zone and columns did "
    "not change.",
    Severity.WARNING,
    example="""
        $ headwater run pipeline.yml --until-idle
        $ rm -r .headwater/queries
        $ headwater run pipeline.yml --until-idle
    """,
    lasting=False,
)
def query_metadata_missing(situation: Situation) -> Iterator[Match]:
    """Without the metadata of the last start, Headwater cannot detect whether the query changed."""
    for sink in situation.facts:
        reached = situation.reached.get(sink)
        if reached and sink not in situation.stored and not joins_group(situation, situation.sink(sink)):
            yield Match.at(situation.sink(sink).position, sink=sink, checkpoint=reached.checkpoint)
