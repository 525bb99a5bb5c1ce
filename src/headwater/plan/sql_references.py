"""Which tables a SQL text reads, found without Spark; what sqlglot can't read is not known offline."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokenizer_core import TokenType

# sqlglot says on its logger what it can't read; for us that is an answer, not an event.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Reference:
    """One table that a SQL text reads, and where in the text (from 1)."""

    name: str
    line: int = 1
    column: int = 1


def sql_references(sql: str) -> tuple[Reference, ...] | None:
    """The tables read by name, in order of appearance; None where the text can't be read offline.

    Names in several parts (`catalog.database.table`) belong to Spark's catalog and are left out.
    """
    try:
        tables = [
            source
            for scope in traverse_scope(_parse(sql))
            for source in scope.sources.values()
            if isinstance(source, exp.Table)
        ]
    except (SqlglotError, RecursionError, ValueError, KeyError):
        return None
    found: dict[str, Reference] = {}
    for table in tables:
        if table.name and not table.db and isinstance(table.this, exp.Identifier):
            reference = _reference(table)
            known = found.setdefault(reference.name.lower(), reference)
            if (reference.line, reference.column) < (known.line, known.column):
                found[reference.name.lower()] = reference
    return tuple(sorted(found.values(), key=lambda reference: (reference.line, reference.column)))


def _parse(sql: str) -> exp.Expr:
    """The tree of one statement.

    sqlglot takes `GROUP BY window(…)` for a WINDOW clause, so the word is made an ordinary name there.
    """
    dialect = Spark()
    tokens = dialect.tokenize(sql)
    for token, following in pairwise(tokens):
        if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    trees = dialect.parser().parse(tokens, sql)
    if len(trees) != 1 or trees[0] is None:
        raise ValueError("one statement is wanted")
    return trees[0]


def _reference(table: exp.Table) -> Reference:
    meta = table.this.meta
    line, end = meta.get("line"), meta.get("col")
    if line is None or end is None:
        return Reference(table.name)
    return Reference(table.name, line, max(1, end - len(table.name) + 1))
