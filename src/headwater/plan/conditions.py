"""Conditions in SQL read without Spark: what is certainly wrong, and which columns they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError

# sqlglot takes these for names where no parentheses follow, and Spark for functions.
_FUNCTIONS = frozenset(
    {
        "current_catalog", "current_database", "current_date", "current_schema", "current_time",
        "current_timestamp", "current_timezone", "current_user", "localtimestamp", "now", "session_user",
        "user",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """What is certainly wrong with a condition, and where in its text (from 1)."""

    says: str
    line: int = 1
    column: int = 1


@dataclass(frozen=True)
class Asked:
    """A column that a condition asks for: the way into a struct by its parts, and where it stands."""

    parts: tuple[str, ...]
    line: int = 1
    column: int = 1

    @property
    def name(self) -> str:
        return ".".join(self.parts)


def fault_in(check: str) -> Fault | None:
    """What no reader of SQL would take; None where all is well, or only Spark can tell."""
    try:
        trees = _trees(check)
    except TokenError:
        return Fault("a quote in it is not closed")
    except ParseError as error:
        return _certain(error)
    except (SqlglotError, RecursionError, ValueError):
        return None
    if len(trees) != 1:
        return Fault("it holds several statements" if trees else "it holds nothing")
    return None


def columns_asked(check: str) -> tuple[Asked, ...]:
    """The columns that a condition asks for, as far as they are certain to be columns of the table."""
    try:
        trees = _trees(check)
    except (SqlglotError, RecursionError, ValueError):
        return ()
    # The names of a lambda's arguments and the columns of a subquery are not those of the table.
    if len(trees) != 1 or trees[0].find(exp.Lambda, exp.Query):
        return ()
    return tuple(_asked(trees[0], check))


def _asked(tree: exp.Expr, check: str) -> Iterator[Asked]:
    for column in tree.find_all(exp.Column):
        parts = tuple(part.name for part in column.parts)
        if isinstance(column.this, exp.Star) or (len(parts) == 1 and parts[0].lower() in _FUNCTIONS):
            continue
        start = column.parts[0].meta.get("start", 0)
        yield Asked(parts, check.count("\n", 0, start) + 1, start - check.rfind("\n", 0, start))


def _trees(check: str) -> list[exp.Expr]:
    dialect = Spark()
    parsed = dialect.parser().parse(dialect.tokenize(check), check)
    return [tree for tree in parsed if tree is not None and not isinstance(tree, exp.Semicolon)]


def _certain(error: ParseError) -> Fault | None:
    """An operator without an operand, or what is opened and not closed; the rest Spark may well know."""
    said = error.errors[0] if error.errors else {}
    description = str(said.get("description", ""))
    place = int(said.get("line") or 1), int(said.get("col") or 1)
    if description.startswith("Required keyword"):
        return Fault("something is missing beside an operator", *place)
    if description == "Expecting )":
        return Fault("a `)` is missing", *place)
    return None
