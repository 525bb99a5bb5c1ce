"""An analysed plan as plain data: what the engine has seen in Spark, to be read without it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter

from headwater.plan.operators import Variable

VERSION = 1


@dataclass(frozen=True)
class Column:
    """A column that a node hands on."""

    name: str
    id: int
    """Spark's number for it, which stays the same through renamings of tables."""
    type: str
    delay_ms: int = -1
    """The delay of the watermark that it carries; -1 for a column without one."""


@dataclass(frozen=True)
class Term:
    """A node of an expression: the name of Spark's class, what it holds, and what it is made of."""

    kind: str
    name: str = ""
    id: int = -1
    value: str = ""
    type: str = ""
    children: tuple[Term, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    plan: Node | None = None
    """The query inside a subquery expression."""

    def walk(self) -> Iterator[Term]:
        """It and everything in it, from the top; plans of subqueries are not entered."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Changing:
    """An expression that may give another value each time it is computed."""

    sql: str
    line: int = 0
    column: int = 0
    makes: tuple[int, ...] = ()
    """The column that is computed with it, by Spark's number."""


@dataclass(frozen=True)
class Node:
    """A node of a plan: the name of Spark's class, its expressions by the name of the field."""

    kind: str
    children: tuple[Node, ...] = ()
    terms: Mapping[str, tuple[Term, ...]] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    """Scalars: the type of a join, the number of a CTE, the modes of an operator."""
    sql: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The expressions of some fields as SQL."""
    columns: tuple[Column, ...] = ()
    """What it hands on, where somebody above has to know."""
    changing: tuple[Changing, ...] = ()
    variables: tuple[Variable, ...] = ()
    delay_ms: int = -1
    """Of a watermark; -1 for every other node."""
    stream: str = ""
    """The name of the stream that a leaf reads; empty for static rows."""
    table: str = ""
    line: int = 0
    column: int = 0

    def walk(self) -> Iterator[Node]:
        """It and everything below, from the top."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class SideReach:
    """How far behind the other side's watermark a join needs the rows of one side."""

    bounded: bool
    reach_ms: int = 0
    streams: tuple[str, ...] = ()
    """The names of the streams of this side, in alphabetical order, by which the join is found again."""


@dataclass(frozen=True)
class JoinReach:
    """What Spark works out for a join of two streams, in the order of its optimised plan."""

    left: SideReach
    right: SideReach
    in_keys: bool
    """The sides are joined on an event time or a window of it, by which both are bounded."""


@dataclass(frozen=True)
class Clash:
    """An operator of the optimised plan to which several columns with a watermark come."""

    kind: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class PlanRecord:
    """A whole plan."""

    root: Node
    joins: tuple[JoinReach, ...] = ()
    clashes: tuple[Clash, ...] = ()
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(_slim(asdict(self)), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> PlanRecord:
        return _STORED.validate_json(text)


def _slim(value: object) -> object:
    """Without what is empty, which is how it is read again."""
    if isinstance(value, dict):
        held = {key: _slim(each) for key, each in value.items()}
        return {key: each for key, each in held.items() if not _is_empty(key, each)}
    if isinstance(value, list | tuple):
        return [_slim(each) for each in value]
    return value


def _is_empty(key: str, value: object) -> bool:
    return value in ("", {}, [], (), None) or (value == -1 and key in ("id", "delay_ms"))


_STORED = TypeAdapter(PlanRecord)


# The functions of a plan that look at other rows.

_WORDS = re.compile(r"(?<!^)(?=[A-Z])")


def over(node: Node) -> str:
    """The functions with `OVER` of a node, as users call them: `row_number(…)`."""
    found = (each for terms in node.terms.values() for top in terms for each in top.walk())
    called = [each.children[0] for each in found if each.kind == "WindowExpression"]
    inner = [each.children[0] if each.kind == "AggregateExpression" else each for each in called]
    return ", ".join(dict.fromkeys(f"{'_'.join(words_of(each.kind))}(…)" for each in inner))


def words_of(name: str) -> list[str]:
    """The words of a name of Spark's, such as `RowNumber`, in small letters."""
    return _WORDS.sub(" ", name).lower().split()
