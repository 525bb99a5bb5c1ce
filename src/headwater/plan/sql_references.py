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


_STATEMENTS = (
    exp.Alter, exp.Analyze, exp.Cache, exp.Command, exp.Create, exp.Declare, exp.Delete, exp.Describe,
    exp.Drop, exp.Grant, exp.Insert, exp.LoadData, exp.Merge, exp.Refresh, exp.Set, exp.TruncateTable,
    exp.Update, exp.Use,
)  # fmt: skip


class NotAQuery(Exception):
    """The text is certainly no query; its message says what it is."""


@dataclass(frozen=True)
class Reference:
    """One table that a SQL text reads, and where in the text (from 1)."""

    name: str
    line: int = 1
    column: int = 1


def sql_references(sql: str) -> tuple[Reference, ...] | None:
    """The tables read by name, in order of appearance; None where the text can't be read offline.

    Names in several parts (`catalog.database.table`) belong to Spark's catalog and are left out. NotAQuery
    is raised for statements that do something, several statements, or none.
    """
    try:
        query = _with_small_names(_query(sql))
        tables = [
            source
            for scope in traverse_scope(query)
            for source in scope.sources.values()
            if isinstance(source, exp.Table)
        ]
    except (SqlglotError, RecursionError, ValueError, KeyError):
        return None
    found: dict[str, Reference] = {}
    if any(_reads_more_than_it_says(table) for table in tables):
        return None
    for table in tables:
        if table.name and not table.db and isinstance(table.this, exp.Identifier):
            reference = _reference(table)
            known = found.setdefault(reference.name.lower(), reference)
            if (reference.line, reference.column) < (known.line, known.column):
                found[reference.name.lower()] = reference
    return tuple(sorted(found.values(), key=lambda reference: (reference.line, reference.column)))


def _query(sql: str) -> exp.Query:
    """The tree of one query.

    sqlglot takes `GROUP BY window(…)` for a WINDOW clause, so the word is made an ordinary name there.
    """
    dialect = Spark()
    tokens = dialect.tokenize(sql)
    for token, following in pairwise(tokens):
        if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    trees = [tree for tree in dialect.parser().parse(tokens, sql) if tree is not None]
    if len(trees) != 1:
        raise NotAQuery(f"{len(trees)} statements" if trees else "it holds no statement")
    (tree,) = trees
    if isinstance(tree, _STATEMENTS):
        first = tokens[0].text.upper()
        raise NotAQuery(tree.key.upper() if first == "WITH" else first)
    if not isinstance(tree, exp.Query):
        raise ValueError("what this is can't be told")
    return tree


def _with_small_names(query: exp.Query) -> exp.Query:
    """The names of WITH in small letters where they are given and where they may be read.

    Spark passes over case in them, and sqlglot does not. Which of them are in scope is sqlglot's to tell.
    """
    named = [cte.args["alias"].this for cte in query.find_all(exp.CTE)]
    small = {name.name.lower() for name in named}
    tables = [table.this for table in query.find_all(exp.Table) if not table.db]
    read = [name for name in tables if isinstance(name, exp.Identifier) and name.name.lower() in small]
    for name in (*named, *read):
        name.set("this", name.name.lower())
    return query


def _reads_more_than_it_says(table: exp.Table) -> bool:
    """Whether a function hides what is read; sqlglot also takes `STREAM t` for a table with another name."""
    if isinstance(table.this, exp.Anonymous):
        return str(table.this.this).lower() != "range"
    return table.name.upper() == "STREAM" and bool(table.alias) and not table.this.quoted


def _reference(table: exp.Table) -> Reference:
    meta = table.this.meta
    line, end = meta.get("line"), meta.get("col")
    if line is None or end is None:
        return Reference(table.name)
    width = len(table.name) + (2 if table.this.quoted else 0)
    return Reference(table.name, line, max(1, end - width + 1))
