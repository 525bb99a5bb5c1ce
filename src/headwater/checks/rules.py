"""What a rule is, and what it gets to see."""

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
from headwater.errors import Entry, EnvironmentProblem, Problem
from headwater.errors.catalogue.environment import RULE_LOAD_FAILED, RULE_NAME_CONFLICT
from headwater.plan import Graph, QueryFacts
from headwater.plan.operators import Expression, Join, Key, Kind, Operator
from headwater.plan.state_layout import StateLayout
from headwater.spec import Named, PipelineSpec, SinkSpec
from headwater.values import Position, capitalized, quoted

# The steps of a query as rules ask for them.

AGGREGATING = frozenset({Kind.AGGREGATION, Kind.DISTINCT})
"""What gives one row for each key; a SELECT DISTINCT is an aggregation without aggregates."""
DEDUP = frozenset({Kind.DEDUP, Kind.DEDUP_WITHIN_WATERMARK})
MODES = ("append", "update", "complete")
_CONSTANT = re.compile(
    r"-?[0-9][\w.]*|X?'.*'|(DATE|TIMESTAMP|TIMESTAMP_NTZ|INTERVAL) '.*|NULL|CAST\(NULL AS .*|true|false",
    re.IGNORECASE | re.DOTALL,
)
_EQUALITY = re.compile(r"(?<![<>!])=(?!>)|<=>")


def aggregated_below(facts: QueryFacts, step: Operator) -> bool:
    """Whether what reaches a step comes out of an aggregation of a stream."""
    return any(each.kind in AGGREGATING and each.streams for each in facts.below(step))


def is_constant(key: Key) -> bool:
    """Whether it is the same for all rows, so that Spark leaves it out of what it groups by."""
    return key.window is None and bool(_CONSTANT.fullmatch(key.sql))


def is_session(key: Key) -> bool:
    return key.window is not None and key.window.session


def names_of(keys: Iterable[Key]) -> str:
    """Keys in words: `a`, `b` and `c`."""
    return quoted((key.name or key.sql for key in keys), last=" and ")


def marked_below(facts: QueryFacts, step: Operator) -> list[str]:
    """The columns on which a watermark was declared before a step, whether or not they reach it."""
    marks = [each for each in facts.below(step) if each.kind is Kind.WATERMARK]
    return list(dict.fromkeys(time.column for each in marks for time in each.event_times))


def has_equality(join: Join) -> bool:
    """Whether something of one side of a join has to be equal to something of the other."""
    return bool(join.keys or _EQUALITY.search(join.condition))


# A finding: a problem of the catalogue, how grave it is, and which sink it concerns.


class Severity(StrEnum):
    """An error keeps the pipeline from starting; a warning and an advice do not."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True)
class Finding:
    """What a check says: `code`, `sentence`, `remedy` and `where`; how grave it is, and what it concerns."""

    problem: Problem
    severity: Severity = Severity.ERROR
    """`error`, `warning` or `advice`: a text, too."""
    sink: str = ""
    """The sink whose query it concerns; empty where it concerns the pipeline."""
    table: str = ""
    """The table in which the cause stands, where that is known."""
    acceptable: bool = False
    """Whether an error may be accepted, because the pipeline would run; what is no error always may."""
    accepted: str = ""
    """The reason that the file gives for accepting it."""
    rewritten: str = ""
    """The query as it should be written, where that can be told; the remedy shows it, too."""

    @property
    def code(self) -> str:
        """Its name in the list of errors: `HW-DECLARATION-UNUSED`."""
        return self.problem.code

    @property
    def sentence(self) -> str:
        """What is wrong."""
        return self.problem.sentence

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self.problem.remedy

    @property
    def where(self) -> str:
        """`file:line:column`; empty where no line of yours is to blame."""
        return self.problem.where

    @property
    def is_error(self) -> bool:
        """Whether it keeps the pipeline from starting."""
        return self.severity is Severity.ERROR and not self.accepted

    def to_json(self) -> dict[str, Any]:
        return {
            "severity": self.severity.value,
            "sink": self.sink or None,
            "table": self.table or None,
            "accepted": self.accepted or None,
            "rewritten": self.rewritten or None,
            **self.problem.to_json(),
        }


@dataclass(frozen=True)
class Reached:
    """How far the query of an existing checkpoint has read, or was about to."""

    checkpoint: str
    """Its folder."""
    offsets: tuple[Any, ...]
    """The newest offset of each source, as Spark stores it; None for a source without one."""
    batch: int = -1
    """The newest batch that was planned."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What froze at the first start, as far as Spark wrote it down."""
    committed_any: bool = True
    """Whether a batch was committed; before that, nothing is stored for good."""
    committed: Callable[[], Mapping[str, Read] | None] = field(default=lambda: None, compare=False)
    """What it has read of each source, up to the newest committed batch; looked up when it is asked for,
    None where that can't be told."""


@dataclass(frozen=True)
class Situation:
    """A pipeline before its start. Offline there are no facts; before the first start none are stored."""

    spec: PipelineSpec
    graph: Graph
    facts: Mapping[str, QueryFacts] = field(default_factory=dict)
    """What Spark would do now, by sink; empty offline."""
    stored: Mapping[str, QueryFacts] = field(default_factory=dict)
    """What the query of each existing checkpoint was at its last start."""
    reached: Mapping[str, Reached] = field(default_factory=dict)
    """How far each existing checkpoint has come."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    whole: bool = True
    """Whether the spec holds everything that was declared, and Spark has nothing against any of it."""

    def sink(self, name: str) -> SinkSpec:
        """A sink by its name."""
        return next(sink for sink in self.spec.sinks if sink.name == name)

    def resuming(self) -> Iterator[tuple[SinkSpec, QueryFacts, QueryFacts]]:
        """The sinks that were started before, each with the facts of its last start and those of now."""
        for sink in self.spec.sinks:
            then, now = self.stored.get(sink.name), self.facts.get(sink.name)
            if then and now:
                yield sink, then, now

    @property
    def sound(self) -> bool:
        """Whether nothing stands against the pipeline as a whole so far."""
        return self.whole and not self.graph.problems


@dataclass(frozen=True)
class Match:
    """What a rule has found at one place, for which the sentence of the rule is filled in."""

    place: Position | None
    params: Mapping[str, object]
    sink: str = ""
    table: str = ""
    acceptable: bool = False
    rewritten: str = ""
    severity: Severity | None = None
    """Where it is less grave than the rule says."""
    entry: Entry | None = None
    """Which of several entries of the rule it is."""

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
        """A place with the parameters of the sentence; the sink is one of them where the sentence has it."""
        return cls(place, params, sink, table, entry=entry)


@dataclass(frozen=True)
class Query:
    """The query of one sink as a rule sees it: its facts, and where its parts stand in the user's files."""

    facts: QueryFacts
    at: Callable[..., Position | None] = lambda *key: None
    """Where the value of a key of the sink stands, or else the sink itself."""
    source_at: Callable[..., Position | None] = lambda name, *key: None
    """Where the value of a key of a source stands, or else the source itself."""
    where: Callable[[Operator | Expression | StateLayout], Position | None] = lambda step: None
    """Where a step of the query stands: in its table's text, at the table, or at the sink."""
    text: Callable[[str], str] = lambda table: ""
    """The SQL of a table; empty for one of Python."""
    setting_at: Callable[[str, str], Position | None] = lambda key, value: None
    """Where a setting of Spark stands that has this value."""
    begun: bool = False
    """Whether an earlier start left a checkpoint."""

    def match(
        self,
        at: Operator | Expression | StateLayout | Position | None,
        /,
        *,
        table: str = "",
        acceptable: bool = False,
        rewritten: str = "",
        severity: Severity | None = None,
        entry: Entry | None = None,
        **params: object,
    ) -> Match:
        """What a rule has found at a step of the query, or at another place."""
        if at is None or isinstance(at, Position):
            place = at
        else:
            place, table = self.where(at), table or at.table
        return Match(place, params, self.facts.sink, table, acceptable, rewritten, severity, entry)

    @property
    def runs(self) -> bool:
        """Whether Spark would run it all the same, so that an error may be accepted."""
        return self.facts.refusal is None


def query_of(spec: PipelineSpec, facts: QueryFacts) -> Query:
    """A declared sink's query with its places."""
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


# A rule: a function with a decorator that holds what it says; its docstring tells why that matters.

Matches = Iterator[Match] | Iterator[Finding]
"""What a rule yields: matches, or findings where others have made the problems."""
Entries = Mapping[Entry, Severity] | Iterable[Entry]
"""What it can say, with severities of their own or of one for all."""


@dataclass(frozen=True, eq=False)
class Rule:
    """One thing that can be said of a query, or of a whole pipeline."""

    name: str
    module: str
    why: str
    entries: Mapping[Entry, Severity]
    """What it can say, each with the gravest severity that it says it with; only this can be accepted."""
    example: str
    """A few lines of a pipeline, or of a session on a terminal, of which it has something to say."""
    lasting: bool = True
    """Whether the pipeline file alone decides; what hangs on a checkpoint or on the environment may come
    and go, so that to accept it in advance is no mistake."""
    whole: bool = False
    """It can be asked only of a pipeline in which nothing is wrong so far: it does not look at each declared
    thing (or its facts) by itself, and what was left out for being wrong would mislead it."""
    of_query: Callable[[Query], Matches] | None = None
    of_pipeline: Callable[[Situation], Matches] | None = None
    refuses: Callable[[QueryFacts], Iterator[object]] | None = None
    """The steps that can't be in the mode of the facts; asked of other modes, too, for the hint."""

    @property
    def entry(self) -> Entry:
        """The sentence of a rule that has one."""
        return next(iter(self.entries))

    @classmethod
    def with_entries(
        cls, entries: Entries, severity: Severity, example: str, lasting: bool
    ) -> Callable[[Callable[..., Matches]], Rule]:
        """Makes a rule of a function, by its name, module and docstring."""
        severities = entries if isinstance(entries, Mapping) else dict.fromkeys(entries, severity)

        def made(function: Callable[..., Matches]) -> Rule:
            named = (function.__name__, function.__module__, inspect.getdoc(function) or "")
            return cls(*named, severities, inspect.cleandoc(example), lasting)

        return made

    def about(self, query: Query) -> Iterator[Finding]:
        """Everything this rule has to say about one query, which a plain program may have made, too."""
        return map(self._finding, self.of_query(query) if self.of_query else ())

    def findings(self, situation: Situation) -> Iterator[Finding]:
        """Everything this rule has to say about a pipeline."""
        yield from map(self._finding, self.of_pipeline(situation) if self.of_pipeline else ())
        for sink, facts in situation.facts.items() if self.of_query else ():
            begun = sink in situation.stored or sink in situation.reached
            yield from self.about(replace(query_of(situation.spec, facts), begun=begun))

    def _finding(self, found: Match | Finding) -> Finding:
        if isinstance(found, Finding):
            return found
        entry = found.entry or self.entry
        fields = {field for _, field, _, _ in Formatter().parse(entry.sentence + entry.remedy)}
        params = {**({"sink": found.sink} if "sink" in fields else {}), **found.params}
        return Finding(
            entry.at(found.place, **params),
            found.severity or self.entries[entry],
            found.sink,
            found.table,
            found.acceptable,
            rewritten=found.rewritten,
        )


def rule(
    code: str = "",
    says: str = "",
    fix: str = "",
    severity: Severity = Severity.ERROR,
    *,
    entries: Entries = (),
    example: str,
    lasting: bool = True,
    refuses: Callable[[QueryFacts], Iterator[object]] | None = None,
) -> Callable[[Callable[[Query], Matches]], Rule]:
    """A rule over one query: its code, sentence and remedy, or the `entries` of one with several, which are
    all of one severity unless they name theirs."""
    makes = Rule.with_entries(entries or [Entry(says, fix, code=code)], severity, example, lasting)
    return lambda function: replace(makes(function), of_query=function, refuses=refuses)


def pipeline_rule(
    code: str = "",
    says: str = "",
    fix: str = "",
    severity: Severity = Severity.ERROR,
    *,
    entries: Entries = (),
    example: str,
    lasting: bool = True,
    whole: bool = False,
) -> Callable[[Callable[[Situation], Matches]], Rule]:
    """The same over a whole pipeline, its checkpoints and its environment."""
    makes = Rule.with_entries(entries or [Entry(says, fix, code=code)], severity, example, lasting)
    return lambda function: replace(makes(function), of_pipeline=function, whole=whole)


# Which rules there are: those of this package, and those that others name in an entry point group.

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
            raise EnvironmentProblem(RULE_NAME_CONFLICT.at(None, name=point.name, other=point.value))
        try:
            rule = point.load()
        except (Exception, SystemExit) as error:  # another package's code: whatever it raises must be named
            raise EnvironmentProblem(RULE_LOAD_FAILED.at(None, **named, error=repr(error))) from error
        if not isinstance(rule, Rule):
            says = "it is no function with `@rule` or `@pipeline_rule`"
            raise EnvironmentProblem(RULE_LOAD_FAILED.at(None, **named, error=says))
        found[point.name] = rule
    return dict(sorted(found.items()))


def examine(situation: Situation) -> list[Finding]:
    """What all rules find; of a pipeline that is broken somewhere, those are asked that look at parts."""
    asked = [rule for rule in all_rules().values() if situation.sound or not rule.whole]
    return [finding for rule in asked for finding in rule.findings(situation)]


def together(*groups: Iterable[Finding]) -> list[Finding]:
    """Findings of several origins, the gravest first, each once for a sink, in the order of the files.

    A warning is left out where an error says the same; what is accepted comes last.
    """
    distinct: dict[tuple[str, str], Finding] = {}
    for finding in (each for group in groups for each in group):
        distinct.setdefault((str(finding.problem), finding.sink), finding)
    # What concerns a sink is not told once more of the whole pipeline.
    of_sinks = {text for text, sink in distinct if sink}
    found = [each for (text, sink), each in distinct.items() if sink or text not in of_sinks]
    errors = [each.problem for each in found if each.severity is Severity.ERROR]

    def covered(other: Problem) -> bool:
        return any(
            error.place == other.place and other.params.items() <= error.params.items() for error in errors
        )

    def rank(finding: Finding) -> tuple[bool, int, str, int, int]:
        # What concerns no line of the user's comes first.
        place = finding.problem.place
        line, column = (place.line, place.column) if place else (0, 0)
        grave = list(Severity).index(finding.severity)
        return bool(finding.accepted), grave, finding.problem.file, line, column

    shown = [each for each in found if each.severity is Severity.ERROR or not covered(each.problem)]
    return sorted(shown, key=rank)


# Another mode that would do.


def other_modes(facts: QueryFacts) -> list[str]:
    """The modes besides the sink's that the query can have, of those that the sink takes."""
    refusing = [rule.refuses for rule in all_rules().values() if rule.refuses]

    def can_have(mode: str) -> bool:
        asked = replace(facts, mode=mode)
        return not any(True for refuses in refusing for _ in refuses(asked))

    taken = facts.modes or MODES
    return [mode for mode in MODES if mode in taken and mode != facts.mode and can_have(mode)]


def use_mode(facts: QueryFacts, *ways: str) -> str:
    """A remedy: another mode where one helps, or else one of the other ways."""
    modes = other_modes(facts)
    every = [*([f"use {' or '.join(modes)} mode"] if modes else []), *ways] or ["change the query"]
    return capitalized("; or ".join(every)) + "."
