"""Rules about how much is read, how often, and which files are taken away afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.checks import Finding, Query, Reached, Severity, Situation
from headwater.checks.pitfalls import fan_out
from headwater.checks.sources import (
    backlog_slow,
    backlog_unlimited,
    clean_up_files_ignored,
    clean_up_unsafe,
    directories_ignored,
    read_twice,
    shown,
)
from headwater.checks.state import KEY, state_partitions
from headwater.plan import Graph, QueryFacts, SourceFacts
from headwater.plan.operators import Expression, Kind, Operator
from headwater.run_directory import RunDirectory
from headwater.spec import Waiting
from tests.unit.checks.facts import aggregation, facts, join, key, side
from tests.unit.specs import spec_of


def told(found: list[Finding]) -> list[tuple[str, str]]:
    return [(each.problem.code, each.severity.value) for each in found]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        (SourceFacts("rows", "files", reads=2), 1),
        (SourceFacts("rows", "files"), 0),
        (SourceFacts("rows", "files", reads=2, streaming=False), 0),
        (SourceFacts("rows", "socket", reads=2, replayable=False), 0),
    ],
)
def test_a_source_that_is_read_twice(source: SourceFacts, count: int) -> None:
    found = list(read_twice.about(Query(facts(sources=(source,)))))
    assert told(found) == [("HW-READ-TWICE", "note")] * count
    assert [each.problem.params for each in found] == [{"sink": "out", "name": "rows", "count": 2}] * count


def joined(condition: str, type_: str = "inner", *, single: bool = False) -> QueryFacts:
    """A join of the stream `rows` with the static `prices`."""
    static = side("prices", streaming=False, single=single)
    step = join(side("rows"), static, type_, condition)
    step = replace(step, join=replace(step.join, keys=()) if step.join else None)
    sources = (SourceFacts("rows", "files"), SourceFacts("prices", "files", streaming=False))
    return facts(step, sources=sources)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (joined(""), [("HW-CROSS-JOIN-UNBOUNDED", "warning")]),
        (joined("", "cross"), [("HW-CROSS-JOIN-UNBOUNDED", "warning")]),
        (joined("(r.at >= p.since)", "left outer"), [("HW-RANGE-JOIN-SLOW", "note")]),
        (joined("((r.at >= p.since) AND (r.at <= p.till))"), [("HW-RANGE-JOIN-SLOW", "note")]),
        (joined("(r.id = p.id)"), []),
        (joined("(r.id <=> p.id)"), []),
        (joined("(r.at >= p.since)", "left semi"), []),
        (joined("(r.at >= p.since)", "left anti"), []),
        # All static rows as one: nothing can be more than it.
        (joined("", "cross", single=True), []),
        (facts(join(side("rows"), side("others"), condition="")), []),
        (facts(aggregation(key("id"))), []),
    ],
)
def test_joins_that_make_many_rows_of_one(query: QueryFacts, expected: list[tuple[str, str]]) -> None:
    found = list(fan_out.about(Query(query)))
    assert told(found) == expected
    assert all(each.problem.params["static"] == "`prices`" for each in found)


def test_the_condition_of_a_lateral_subquery_stands_inside() -> None:
    lateral = Expression("LateralJoin")
    assert list(fan_out.about(Query(replace(joined(""), beyond_rows=(lateral,))))) == []
    elsewhere = replace(lateral, table="other", line=2)
    crossed = replace(joined(""), beyond_rows=(elsewhere,))
    assert told(list(fan_out.about(Query(crossed)))) == [("HW-CROSS-JOIN-UNBOUNDED", "warning")]


def partitioned(partitions: str, cores: int, *steps: Operator) -> QueryFacts:
    return facts(*(steps or (aggregation(key("id")),)), settings={KEY: partitions}, cores=cores)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (partitioned("200", 2), 1),
        (partitioned("17", 2), 1),
        (partitioned("16", 1), 0),
        (partitioned("200", 25), 0),
        (partitioned("201", 25), 1),
        (partitioned("", 2), 0),
        (partitioned("200", 2, Operator(Kind.UNION, "UNION")), 0),
        (facts(aggregation(key("id"))), 0),
    ],
)
def test_too_many_partitions_of_state(query: QueryFacts, count: int) -> None:
    assert told(list(state_partitions.about(Query(query)))) == [("HW-STATE-PARTITIONS", "note")] * count


def test_partitions_are_told_at_the_setting_and_only_before_the_first_start() -> None:
    spec = spec_of(
        """
        name: p
        spark: {spark.sql.shuffle.partitions: 200}
        sources:
          rows: {connector: rate}
        sinks:
          out: {reads: rows, connector: noop}
        """
    )
    query, graph = partitioned("200", 2), Graph.of(spec)
    (found,) = state_partitions.findings(Situation(spec, graph, {"out": query}))
    assert found.problem.place
    assert found.problem.place.line == 2
    (chosen,) = state_partitions.findings(Situation(spec, graph, {"out": partitioned("100", 2)}))
    assert chosen.problem.place
    assert chosen.problem.place.line == 6
    stored = Situation(spec, graph, {"out": query}, {"out": query})
    assert list(state_partitions.findings(stored)) == []
    reached = Situation(spec, graph, {"out": query}, reached={"out": Reached("/c", ())})
    assert list(state_partitions.findings(reached)) == []


def folder_of(tmp_path: Path, files: int, size: int = 0) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(files):
        file = folder / f"{number}.txt"
        file.touch()
        if size:
            with file.open("r+b") as opened:
                opened.truncate(size)
    return tmp_path


def reading(
    root: Path, keys: str = "", trigger: str = "", sink: str = "console", path: str = "in/"
) -> Situation:
    paced = f", trigger: {trigger}" if trigger else ""
    spec = spec_of(
        f"""
        name: p
        sources:
          rows: {{connector: files, path: {path}, format: text{keys}}}
        sinks:
          out: {{reads: rows, connector: {sink}{paced}}}
        """,
        root,
    )
    return Situation(spec, Graph.of(spec))


def limits(situation: Situation) -> list[Finding]:
    return [*backlog_unlimited.findings(situation), *backlog_slow.findings(situation)]


@pytest.mark.feature("J2", part="note: a full folder without a limit")
def test_a_folder_that_is_full_of_files(tmp_path: Path) -> None:
    root = folder_of(tmp_path, 1000)
    (found,) = limits(reading(root))
    assert told([found]) == [("HW-BACKLOG-UNLIMITED", "note")]
    assert found.problem.params == {
        "name": "rows",
        "waiting": "1,000 files (0 bytes)",
        "sinks": "`out`",
        "keys": "`max_files_per_batch` or `max_bytes_per_batch`",
    }
    assert limits(reading(root, ", max_files_per_batch: 10")) == []
    assert limits(reading(root, ", max_bytes_per_batch: 10 MB")) == []
    assert limits(reading(root, ", options: {maxFilesPerTrigger: 10}")) == []
    assert limits(reading(root, ", static: true")) == []
    # What it will read of the folder is not known.
    assert limits(reading(root, ", max_file_age: 1 day")) == []


@pytest.mark.feature("J2", part="subdirectories that a source ignores")
def test_directories_that_are_ignored_are_named(tmp_path: Path) -> None:
    def found(more: str = "") -> list[Finding]:
        return list(directories_ignored.findings(reading(root, more)))

    root = folder_of(tmp_path, 1)
    for name in ("_tmp", ".git"):
        (root / "in" / name).mkdir()
    assert found() == []
    (root / "in" / "sub.json").mkdir()
    (one,) = found()
    assert told([one]) == [("HW-SOURCE-DIRECTORIES-IGNORED", "warning")]
    assert one.problem.params["count"] == "1 subdirectory"
    assert one.problem.hint.endswith("move the subdirectory out of the path.")
    assert one.problem.params["directories"] == f"{root}/in/sub.json"
    for number in range(6):
        (root / "in" / str(number)).mkdir()
    (many,) = found(", static: true")
    assert many.problem.params["count"] == "7 subdirectories"
    assert str(many.problem.params["directories"]).endswith("/in/4 and 2 more")
    assert found(", options: {recursiveFileLookup: true}") == []
    # The name of the project's directory is no glob.
    odd = tmp_path / "[x]"
    (odd / "in" / "sub").mkdir(parents=True)
    (one,) = directories_ignored.findings(reading(odd, path="i*/"))
    assert one.problem.params["directories"] == f"{odd}/in/sub"
    # A glob reads the directories that it matches; beside key=value directories the query fails at others.
    (root / "in" / "day=1").mkdir()
    assert found() == []


def test_a_folder_that_is_full_of_bytes(tmp_path: Path) -> None:
    (found,) = limits(reading(folder_of(tmp_path, 2, 1 << 30)))
    assert found.problem.params["waiting"] == "2 files (2.0 GB)"


def test_a_full_folder_of_a_project_whose_name_is_a_glob(tmp_path: Path) -> None:
    (tmp_path / "[x]").mkdir()
    (found,) = limits(reading(folder_of(tmp_path / "[x]", 1000)))
    assert found.problem.code == "HW-BACKLOG-UNLIMITED"


def test_a_folder_that_is_not_full(tmp_path: Path) -> None:
    assert limits(reading(folder_of(tmp_path, 999))) == []


@pytest.mark.parametrize("sink", ["console", "memory"])
def test_a_checkpoint_has_read_some_of_it(tmp_path: Path, sink: str) -> None:
    situation = reading(folder_of(tmp_path, 1000), sink=sink)
    known = replace(situation, reached={"out": Reached("/c", ())})
    # A table in memory reads everything again.
    assert len(limits(known)) == (sink == "memory")
    checkpoint = RunDirectory(tmp_path / ".headwater").checkpoint("out")
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"a"}', encoding="utf-8")
    assert len(limits(situation)) == (sink == "memory")


@pytest.mark.feature("J2", part="note: a limit that is too low to catch up")
@pytest.mark.parametrize(
    ("keys", "trigger", "expected"),
    [
        ("max_files_per_batch: 1", "every 10 minutes", ("about 16 hours", "100", "17")),
        ("max_files_per_batch: 2", "every 10 minutes", ("about 8 hours", "50", "17")),
        ("max_bytes_per_batch: 2 KB", "every 10 minutes", ("about 8 hours", "50", "16.7 KB")),
        ("options: {maxFilesPerTrigger: 1}", "every 1 hour", ("about 4 days", "100", "100")),
        ("max_files_per_batch: 10", "every 10 minutes", None),
        ("max_files_per_batch: 1", "every 30 seconds", None),
        ("max_files_per_batch: 1", "available now", None),
        ("max_files_per_batch: 1", "", None),
    ],
)
def test_a_limit_that_is_too_low(
    tmp_path: Path, keys: str, trigger: str, expected: tuple[str, str, str] | None
) -> None:
    found = limits(reading(folder_of(tmp_path, 100, 1024), f", {keys}", trigger))
    assert told(found) == ([("HW-BACKLOG-SLOW", "warning")] if expected else [])
    for each in found:
        params = each.problem.params
        assert (params["time"], params["batches"], params["enough"]) == expected
        assert (params["trigger"], params["waiting"]) == (trigger, "100 files (100.0 KB)")


def test_what_was_not_counted_to_the_end_is_said() -> None:
    assert shown(Waiting(1, 5)) == "1 file (5 bytes)"
    assert shown(Waiting(20_000, 3 << 20, more=True)) == "more than 20,000 files (more than 3.0 MB)"


PIPELINE = """
    name: cleaned
    sources:
      cleaned: {connector: files, path: in, format: text, clean_up: delete}
      other: {connector: files, format: text, %s}
    tables:
      words: SELECT value FROM cleaned
    sinks:
      one: {reads: Words, connector: %s}
      two: {reads: other, connector: console}
"""


def situation(root: Path, other: str, sink: str = "console") -> Situation:
    (root / "in").mkdir(exist_ok=True)
    (root / "beside").mkdir(exist_ok=True)
    spec = spec_of(PIPELINE % (other, sink), root)
    return Situation(spec, Graph.of(spec), environ={})


def test_a_sink_that_begins_anew_needs_the_files_again(tmp_path: Path) -> None:
    (found,) = clean_up_unsafe.findings(situation(tmp_path, "path: beside", "memory"))
    assert (found.problem.code, found.severity) == ("HW-CLEAN-UP-TEMPORARY-SINK", Severity.ERROR)
    assert found.problem.params == {"sink": "one", "name": "cleaned", "done": "deleted"}
    assert found.problem.place
    assert found.problem.place.line == 8


@pytest.mark.parametrize(
    ("other", "keys"),
    [
        ('path: "in/*.txt", options: {pathGlobFilter: "a*", modifiedAfter: "2026-01-01T00:00:00"}', "both"),
        ("path: ., max_file_age: 1 day", "`max_file_age`"),
        ("path: [beside, in], file_name_only: true", "`file_name_only`"),
        ("path: in", None),
        ("path: beside, file_name_only: true", None),
        ("path: in, options: {wholetext: true}", None),
    ],
)
def test_files_that_another_source_passes_over_stay(tmp_path: Path, other: str, keys: str | None) -> None:
    found = list(clean_up_files_ignored.findings(situation(tmp_path, other)))
    named = "`pathGlobFilter`, `modifiedAfter`" if keys == "both" else keys
    assert [each.problem.params["keys"] for each in found] == ([named] if named else [])
    assert all(
        (each.problem.code, each.severity) == ("HW-CLEAN-UP-FILES-IGNORED", Severity.WARNING)
        for each in found
    )


@pytest.mark.parametrize("path", ["file://{}/in", "linked", "{{in,beside}}/*.txt"])
def test_a_static_source_that_names_the_folder_differently(tmp_path: Path, path: str) -> None:
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    shared = situation(tmp_path, f'path: "{path.format(tmp_path)}", static: true')
    assert [each.problem.code for each in clean_up_unsafe.findings(shared)] == ["HW-CLEAN-UP-STATIC-CONFLICT"]
