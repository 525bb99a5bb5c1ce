"""Which tables a SQL text reads, found without Spark; what sqlglot can't read is not known offline."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.tokenizer_core import TokenType

from headwater.plan.sql_syntax import Fault, syntax_fault

# sqlglot says on its logger what it can't read; for us that is an answer, not an event.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


_STATEMENTS = (
    exp.Alter, exp.Analyze, exp.Cache, exp.Command, exp.Create, exp.Declare, exp.Delete, exp.Describe,
    exp.Drop, exp.Grant, exp.Insert, exp.LoadData, exp.Merge, exp.Refresh, exp.Set, exp.TruncateTable,
    exp.Update, exp.Use,
)  # fmt: skip


class NotSql(Exception):
    """The text is certainly wrong; `fault` says what and where."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.says)
        self.fault = fault


class NotAQuery(Exception):
    """The text is certainly no query; its message says what it is."""


@dataclass(frozen=True)
class Reference:
    """One table that a SQL text reads, and where in the text (from 1)."""

    name: str
    line: int = 1
    column: int = 1

    def place(self) -> tuple[int, int]:
        """Where it stands; what is smaller stands before."""
        return self.line, self.column


def sql_references(sql: str) -> tuple[Reference, ...] | None:
    """The tables read by name, in order of appearance; None where the text can't be read offline.

    Names in several parts (`catalog.database.table`) belong to Spark's catalog and are left out. NotAQuery
    is raised for statements that do something, several statements, or none; NotSql for certain errors.
    """
    try:
        query = parsed_query(sql)
        small = _with_small_names(query)
        tables = list(_tables(traverse_scope(query), small))
    except (SqlglotError, RecursionError, ValueError, KeyError):
        fault = syntax_fault(sql)
        if fault:
            raise NotSql(fault) from None
        return None
    if _overlooks(tables, query) or _means_something_else(query):
        return None
    read = [table for table, is_named_before in tables if not is_named_before]
    if any(map(_reads_more_than_it_says, read)):
        return None
    found: dict[str, Reference] = {}
    for table in read:
        if table.name and not table.db:
            reference = _reference(table.this, sql)
            known = found.setdefault(reference.name.lower(), reference)
            found[reference.name.lower()] = min(known, reference, key=Reference.place)
    return tuple(sorted(found.values(), key=Reference.place))


def parsed_query(sql: str) -> exp.Query:
    """The tree of one query.

    sqlglot takes `GROUP BY window(…)` for a WINDOW clause, so the word is made an ordinary name there; and it
    passes over a comma before FROM, where Spark takes FROM for the name of a column.
    """
    dialect = Spark()
    tokens = dialect.tokenize(sql)
    for token, following in pairwise(tokens):
        if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.VAR
        if token.token_type in (TokenType.COMMA, TokenType.SELECT) and following.token_type == TokenType.FROM:
            raise ValueError("FROM is a name here")
    # A comment after the last semicolon is a tree of its own.
    parsed = dialect.parser().parse(tokens, sql)
    trees = [tree for tree in parsed if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(trees) != 1:
        raise NotAQuery(f"{len(trees)} statements" if trees else "it holds no statement")
    (tree,) = trees
    if isinstance(tree, _STATEMENTS):
        first = tokens[0].text.upper()
        raise NotAQuery(tree.key.upper() if first == "WITH" else first)
    if not isinstance(tree, exp.Query):
        raise ValueError("what this is can't be told")
    return tree


def _with_small_names(query: exp.Query) -> set[str]:
    """Put the names of WITH into small letters where they are given and where they may be read.

    Spark passes over case in them, and sqlglot does not. Which of them are in scope is sqlglot's to tell.
    """
    named = [cte.args["alias"].this for cte in query.find_all(exp.CTE)]
    small = {name.name.lower() for name in named}
    tables = [table.this for table in query.find_all(exp.Table) if not table.db]
    read = [name for name in tables if isinstance(name, exp.Identifier) and name.name.lower() in small]
    for name in (*named, *read):
        name.set("this", name.name.lower())
    return small


def _tables(scopes: list[Scope], small: set[str]) -> Iterator[tuple[exp.Table, bool]]:
    """Every table that is read, and whether it is a query of a WITH."""
    for scope in scopes:
        for table in scope.tables:
            if table.db or table.name not in small:
                yield table, False
                continue
            source = scope.sources.get(table.alias_or_name)
            if source is not table and not _is_named(source, table.name):
                raise ValueError("two tables have one name here")
            yield table, source is not table or _is_recursive(table)


def _is_named(source: exp.Expr | Scope | None, name: str) -> bool:
    """Whether a source is the query that a WITH gives this name."""
    around = source.expression.find_ancestor(exp.CTE) if isinstance(source, Scope) and source.is_cte else None
    return around is not None and around.alias == name


def _overlooks(tables: list[tuple[exp.Table, bool]], query: exp.Query) -> bool:
    """Whether a table stands where sqlglot looks for none, as in the argument of a function in FROM."""
    seen = {id(table) for table, _ in tables}
    hidden = (table for table in query.find_all(exp.Table) if id(table) not in seen)
    return any(not isinstance(table.parent, exp.JoinHint) for table in hidden)


def _is_recursive(table: exp.Table) -> bool:
    """Whether a query of WITH RECURSIVE reads itself here."""
    around = table.find_ancestor(exp.CTE)
    while around:
        clause = around.parent
        if clause and clause.args.get("recursive") and around.alias.lower() == table.name.lower():
            return True
        around = around.find_ancestor(exp.CTE)
    return False


def _reads_more_than_it_says(table: exp.Table) -> bool:
    """Whether a function hides what is read; sqlglot also takes `STREAM t` for a table with another name."""
    if isinstance(table.this, exp.Anonymous):
        return str(table.this.this).lower() != "range"
    if isinstance(table.this, exp.Identifier):
        return table.name.upper() == "STREAM" and bool(table.alias) and not table.this.quoted
    return not isinstance(table.this, exp.Func)


def _means_something_else(query: exp.Query) -> bool:
    """Whether the text holds what other dialects know: Spark refuses it, or takes the words for names."""
    return any(
        not isinstance(node, exp.Distinct) or node.args.get("on")
        for node in query.find_all(exp.Distinct, exp.Fetch, exp.Into, exp.Lock, exp.Qualify)
    )


def _reference(name: exp.Identifier, sql: str) -> Reference:
    start = name.meta.get("start")
    if start is None:
        return Reference(name.name)
    return Reference(name.name, sql.count("\n", 0, start) + 1, start - sql.rfind("\n", 0, start))
