"""Rules: what a rule is, what it can inspect, and the findings it returns."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from string import Formatter
from typing import Any

from headwater import checks
from headwater.checkpoint import Read
from headwater.errors import Entry, Problem, SetupError
from headwater.errors.catalogue.environment import RULE_LOAD_FAILED, RULE_NAME_CONFLICT
from headwater.plan import Graph, QueryFacts
from headwater.plan.operators import Expression, Join, Key, Kind, Operator
from headwater.plan.state_layout import StateLayout
from headwater.spec import Named, PipelineSpec, SinkSpec
from headwater.values import Position, capitalized, quoted

# The operators of a query, as rules select them.

AGGREGATING = frozenset({Kind.AGGREGATION, Kind.DISTINCT})
"""Operators that emit one row per key; a SELECT DISTINCT is an aggregation without aggregates."""
DEDUP = frozenset({Kind.DEDUP, Kind.DEDUP_WITHIN_WATERMARK})
MODES = ("append", "update", "complete")
_CONSTANT = re.compile(
    r"-?[0-9][\w.]*|X?'.*'|(DATE|TIMESTAMP|TIMESTAMP_NTZ|INTERVAL) '.*|NULL|CAST\(NULL AS .*|true|false",
    re.IGNORECASE | re.DOTALL,
)
_EQUALITY = re.compile(r"(?<![<>!])=(?!>)|<=>")


def aggregated_below(facts: QueryFacts, step: Operator) -> bool:
    """Whether a step reads the results of an aggregation over a stream."""
    return any(each.kind in AGGREGATING and each.streams for each in facts.below(step))


def is_constant(key: Key) -> bool:
    """Whether the key is the same for all rows; Spark drops such keys from the grouping."""
    return key.window is None and bool(_CONSTANT.fullmatch(key.sql))


def is_session(key: Key) -> bool:
    return key.window is not None and key.window.session


def names_of(keys: Iterable[Key]) -> str:
    """Keys as text: `a`, `b` and `c`."""
    return quoted((key.name or key.sql for key in keys), last=" and ")


def marked_below(facts: QueryFacts, step: Operator) -> list[str]:
    """The columns with a watermark declared before a step, even if the columns do not reach it."""
    marks = [each for each in facts.below(step) if each.kind is Kind.WATERMARK]
    return list(dict.fromkeys(time.column for each in marks for time in each.event_times))


def has_equality(join: Join) -> bool:
    """Whether the join condition compares both sides by equality."""
    return bool(join.keys or _EQUALITY.search(join.condition))


# A finding: a problem from the catalogue, its severity, and the sink it concerns.


class Severity(StrEnum):
    """An error prevents the pipeline from starting; warnings and notes do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One result of a check: code, message, hint, location and severity."""

    problem: Problem
    severity: Severity = Severity.ERROR
    """`error`, `warning` or `note`. It compares equal to the string."""
    sink: str = ""
    """The sink whose query it concerns; empty if it concerns the whole pipeline."""
    table: str = ""
    """The table that causes it, if known."""
    suppressible: bool = False
    """Whether you can suppress an error, because the pipeline would run. Warnings and notes always can be."""
    suppressed: str = ""
    """The reason given for suppressing it."""
    suggested_sql: str = ""
    """The corrected query, if Headwater can generate it. The hint also shows it."""

    @property
    def code(self) -> str:
        """The error code, such as `HW-DECLARATION-UNUSED`."""
        return self.problem.code

    @property
    def message(self) -> str:
        """The problem."""
        return self.problem.message

    @property
    def hint(self) -> str:
        """How to fix it."""
        return self.problem.hint

    @property
    def location(self) -> str:
        """`file:line:column`; empty if no line of your files causes it."""
        return self.problem.location

    @property
    def is_error(self) -> bool:
        """Whether it prevents the pipeline from starting."""
        return self.severity is Severity.ERROR and not self.suppressed

    def to_json(self) -> dict[str, Any]:
        return {
            "severity": self.severity.value,
            "sink": self.sink or None,
            "table": self.table or None,
            "suppressed": self.suppressed or None,
            "suggested_sql": self.suggested_sql or None,
            **self.problem.to_json(),
        }


@dataclass(frozen=True)
class Reached:
    """The progress of a query according to its checkpoint, including a planned batch."""

    checkpoint: str
    """Its directory."""
    offsets: tuple[Any, ...]
    """The newest offset of each source, as Spark stores it; None for a source without one."""
    batch: int = -1
    """The latest planned batch."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings that Spark stored at the first start."""
    committed_any: bool = True
    """Whether a batch was committed; before that, no state is final."""
    committed: Callable[[], Mapping[str, Read] | None] = field(default=lambda: None, compare=False)
    """Reads what the query has read of each source up to its latest committed batch; None if unknown."""


@dataclass(frozen=True)
class Situation:
    """A pipeline before its start. Offline, `facts` is empty; before the first start, `stored` is."""

    spec: PipelineSpec
    graph: Graph
    facts: Mapping[str, QueryFacts] = field(default_factory=dict)
    """What Spark would run now, by sink; empty offline."""
    stored: Mapping[str, QueryFacts] = field(default_factory=dict)
    """The query of each existing checkpoint, as of its last start."""
    reached: Mapping[str, Reached] = field(default_factory=dict)
    """The progress of each existing checkpoint."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    whole: bool = True
    """Whether the spec contains everything that was declared, and Spark accepts all of it."""
    written_by: Mapping[str, str] = field(default_factory=dict)
    """The checkpoint of the query that has written a sink, if that is not its query now: it was grouped, or not."""

    def sink(self, name: str) -> SinkSpec:
        """The sink with this name."""
        return next(sink for sink in self.spec.sinks if sink.name == name)

    def resuming(self) -> Iterator[tuple[SinkSpec, QueryFacts, QueryFacts]]:
        """The sinks that were started before, with their facts at the last start and now."""
        for sink in self.spec.sinks:
            then, now = self.stored.get(sink.name), self.facts.get(sink.name)
            if then and now:
                yield sink, then, now

    @property
    def sound(self) -> bool:
        """Whether the pipeline as a whole has no known errors."""
        return self.whole and not self.graph.problems


@dataclass(frozen=True)
class Match:
    """What a rule found at one location: the parameters for its message."""

    place: Position | None
    params: Mapping[str, object]
    sink: str = ""
    table: str = ""
    suppressible: bool = False
    suggested_sql: str = ""
    severity: Severity | None = None
    """A lower severity than that of the rule."""
    entry: Entry | None = None
    """The entry, if the rule has several."""

    @classmethod
    def at(
        cls,
        place: Position | None,
        /,
        *,
        sink: str = "",
        table: str = "",
        entry: Entry | None = None,
        **params: object,
    ) -> Match:
        """A location with the parameters of the message; `sink` is one of them if the message uses it."""
        return cls(place, params, sink, table, entry=entry)


@dataclass(frozen=True)
class Query:
    """The query of one sink as a rule sees it: its facts, and the locations of its parts in your files."""

    facts: QueryFacts
    at: Callable[..., Position | None] = lambda *key: None
    """The location of a key of the sink, or of the sink."""
    source_at: Callable[..., Position | None] = lambda name, *key: None
    """The location of a key of a source, or of the source."""
    where: Callable[[Operator | Expression | StateLayout], Position | None] = lambda step: None
    """The location of a step of the query: in the SQL of its table, the table, or the sink."""
    text: Callable[[str], str] = lambda table: ""
    """The SQL of a table; empty for a Python table."""
    setting_at: Callable[[str, str], Position | None] = lambda key, value: None
    """The location of a Spark setting with this value."""
    begun: bool = False
    """Whether an earlier start left a checkpoint."""

    def match(
        self,
        at: Operator | Expression | StateLayout | Position | None,
        /,
        *,
        table: str = "",
        suppressible: bool = False,
        suggested_sql: str = "",
        severity: Severity | None = None,
        entry: Entry | None = None,
        **params: object,
    ) -> Match:
        """What a rule found at a step of the query, or at another location."""
        if at is None or isinstance(at, Position):
            place = at
        else:
            place, table = self.where(at), table or at.table
        return Match(place, params, self.facts.sink, table, suppressible, suggested_sql, severity, entry)

    @property
    def runs(self) -> bool:
        """Whether Spark would run the query anyway, so that an error can be suppressed."""
        return self.facts.refusal is None


def query_of(spec: PipelineSpec, facts: QueryFacts) -> Query:
    """The query of a declared sink with its locations."""
    sink = next(each for each in spec.sinks if each.name == facts.sink)
    named: dict[str, Named] = {each.name: each for each in spec.readable}
    tables = {each.name: each for each in spec.tables}

    def source_at(name: str, *key: str | int) -> Position | None:
        return named[name].at(*key) if name in named else sink.position

    def where(step: Operator | Expression | StateLayout) -> Position | None:
        table = tables.get(step.table)
        if table is None:
            return named[step.table].position if step.table in named else sink.position
        return table.text.at(step.line, step.column) if table.text and step.line else table.position

    def text(table: str) -> str:
        return tables[table].sql or "" if table in tables else ""

    return Query(facts, sink.at, source_at, where, text, spec.setting_place)


# A rule: a function whose decorator has its messages and whose docstring explains why it matters.

Matches = Iterator[Match] | Iterator[Finding]
"""What a rule yields: matches, or complete findings."""
Entries = Mapping[Entry, Severity] | Iterable[Entry]
"""The entries of a rule, with one severity each or one for all."""


@dataclass(frozen=True, eq=False)
class Rule:
    """One check of a query or of a whole pipeline."""

    name: str
    module: str
    why: str
    entries: Mapping[Entry, Severity]
    """Its entries, each with its highest severity."""
    example: str
    """A few lines of a pipeline or of a terminal session for which the rule reports a finding."""
    lasting: bool = True
    """Whether the result depends on the pipeline file alone. A finding that depends on a checkpoint or on the
    environment can disappear and return, so an unused suppression of it is not reported."""
    whole: bool = False
    """Whether the rule needs a pipeline without errors: it compares declarations with each other, and a
    declaration that was dropped for its errors would mislead it."""
    of_query: Callable[[Query], Matches] | None = None
    of_pipeline: Callable[[Situation], Matches] | None = None
    refuses: Callable[[QueryFacts], Iterator[object]] | None = None
    """The steps that do not support the mode of the facts; hints also evaluate it for other modes."""

    @property
    def entry(self) -> Entry:
        """The entry of a rule that has one."""
        return next(iter(self.entries))

    @classmethod
    def with_entries(
        cls, entries: Entries, severity: Severity, example: str, lasting: bool
    ) -> Callable[[Callable[..., Matches]], Rule]:
        """Turns a function into a rule, with its name, module and docstring."""
        severities = entries if isinstance(entries, Mapping) else dict.fromkeys(entries, severity)

        def made(function: Callable[..., Matches]) -> Rule:
            named = (function.__name__, function.__module__, inspect.getdoc(function) or "")
            return cls(*named, severities, inspect.cleandoc(example), lasting)

        return made

    def about(self, query: Query) -> Iterator[Finding]:
        """The findings for one query, of a pipeline or of a PySpark script."""
        return map(self._finding, self.of_query(query) if self.of_query else ())

    def findings(self, situation: Situation) -> Iterator[Finding]:
        """The findings for a pipeline."""
        yield from map(self._finding, self.of_pipeline(situation) if self.of_pipeline else ())
        for sink, facts in situation.facts.items() if self.of_query else ():
            begun = sink in situation.stored or sink in situation.reached
            yield from self.about(replace(query_of(situation.spec, facts), begun=begun))

    def _finding(self, found: Match | Finding) -> Finding:
        if isinstance(found, Finding):
            return found
        entry = found.entry or self.entry
        fields = {field for _, field, _, _ in Formatter().parse(entry.message + entry.hint)}
        params = {**({"sink": found.sink} if "sink" in fields else {}), **found.params}
        return Finding(
            entry.at(found.place, **params),
            found.severity or self.entries[entry],
            found.sink,
            found.table,
            found.suppressible,
            suggested_sql=found.suggested_sql,
        )


def rule(
    code: str = "",
    message: str = "",
    hint: str = "",
    severity: Severity = Severity.ERROR,
    *,
    entries: Entries = (),
    example: str,
    lasting: bool = True,
    refuses: Callable[[QueryFacts], Iterator[object]] | None = None,
) -> Callable[[Callable[[Query], Matches]], Rule]:
    """Declares a rule for one query: its code, message and hint, or `entries` if it has several.

    All entries have the same severity unless `entries` maps each to its own.
    """
    makes = Rule.with_entries(entries or [Entry(message, hint, code=code)], severity, example, lasting)
    return lambda function: replace(makes(function), of_query=function, refuses=refuses)


def pipeline_rule(
    code: str = "",
    message: str = "",
    hint: str = "",
    severity: Severity = Severity.ERROR,
    *,
    entries: Entries = (),
    example: str,
    lasting: bool = True,
    whole: bool = False,
) -> Callable[[Callable[[Situation], Matches]], Rule]:
    """Declares a rule for a whole pipeline, its checkpoints and its environment."""
    makes = Rule.with_entries(entries or [Entry(message, hint, code=code)], severity, example, lasting)
    return lambda function: replace(makes(function), of_pipeline=function, whole=whole)


# All rules: those of this package, and those that installed packages register as entry points.

GROUP = "headwater.rules"


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by name."""
    modules = [import_module(f"{checks.__name__}.{each.name}") for each in iter_modules(checks.__path__)]
    values = (value for module in modules for value in vars(module).values())
    found = {value.name: value for value in values if isinstance(value, Rule)}
    for point in entry_points(group=GROUP):
        named = {"name": point.name, "module": point.value}
        if point.name in found:
            raise SetupError(RULE_NAME_CONFLICT.at(None, name=point.name, other=point.value))
        try:
            rule = point.load()
        except (Exception, SystemExit) as error:  # another package's code: whatever it raises must be named
            raise SetupError(RULE_LOAD_FAILED.at(None, **named, error=repr(error))) from error
        if not isinstance(rule, Rule):
            says = "it is not a function decorated with `@rule` or `@pipeline_rule`"
            raise SetupError(RULE_LOAD_FAILED.at(None, **named, error=says))
        found[point.name] = rule
    return dict(sorted(found.items()))


def examine(situation: Situation) -> list[Finding]:
    """The findings of all rules. If the pipeline has errors, only rules that inspect single parts run."""
    asked = [rule for rule in all_rules().values() if situation.sound or not rule.whole]
    return [finding for rule in asked for finding in rule.findings(situation)]


def together(*groups: Iterable[Finding]) -> list[Finding]:
    """Merges findings: highest severity first, each once per sink, in the order of the files.

    An error replaces a warning about the same thing. Suppressed findings are last.
    """
    distinct: dict[tuple[str, str], Finding] = {}
    for finding in (each for group in groups for each in group):
        distinct.setdefault((str(finding.problem), finding.sink), finding)
    # A finding of a sink is not repeated for the whole pipeline.
    of_sinks = {text for text, sink in distinct if sink}
    found = [each for (text, sink), each in distinct.items() if sink or text not in of_sinks]
    errors = [each.problem for each in found if each.severity is Severity.ERROR]

    def covered(other: Problem) -> bool:
        return any(
            error.place == other.place and other.params.items() <= error.params.items() for error in errors
        )

    def rank(finding: Finding) -> tuple[bool, int, str, int, int]:
        # Findings without a location are first.
        place = finding.problem.place
        line, column = (place.line, place.column) if place else (0, 0)
        grave = list(Severity).index(finding.severity)
        return bool(finding.suppressed), grave, finding.problem.file, line, column

    shown = [each for each in found if each.severity is Severity.ERROR or not covered(each.problem)]
    return sorted(shown, key=rank)


# Output modes that the query supports.


def other_modes(facts: QueryFacts) -> list[str]:
    """The other modes that both the query and the sink support."""
    refusing = [rule.refuses for rule in all_rules().values() if rule.refuses]

    def can_have(mode: str) -> bool:
        asked = replace(facts, mode=mode)
        return not any(True for refuses in refusing for _ in refuses(asked))

    taken = facts.modes or MODES
    return [mode for mode in MODES if mode in taken and mode != facts.mode and can_have(mode)]


def set_mode(facts: QueryFacts) -> str:
    """The modes that would work, as the start of a hint; empty if there are none."""
    modes = other_modes(facts)
    return f"set {quoted((f'mode: {mode}' for mode in modes), last=' or ')}" if modes else ""


def use_mode(facts: QueryFacts, *ways: str) -> str:
    """A hint: set another mode if one works, or use one of the other ways."""
    every = list(filter(None, [set_mode(facts), *ways])) or ["change the query"]
    return capitalized(", or ".join(every)) + "."
