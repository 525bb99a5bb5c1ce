"""The graph of a pipeline: which table reads which, in which order they are built, and which are streams."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.tokenizer_core import TokenType

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.pipelines import SQL_NOT_A_QUERY, TABLE_CYCLE, TABLE_NOT_FOUND
from headwater.errors.catalogue.running import SQL_SYNTAX
from headwater.plan.sql_syntax import Fault, place_in, syntax_fault
from headwater.spec import PipelineSpec, SinkSpec, TableSpec
from headwater.values import Position, did_you_mean

# The tables that a SQL text reads, found without Spark; what sqlglot cannot parse is unknown offline.

# sqlglot logs what it cannot parse; here that is an expected result.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


_STATEMENTS = (
    exp.Alter, exp.Analyze, exp.Cache, exp.Command, exp.Create, exp.Declare, exp.Delete, exp.Describe,
    exp.Drop, exp.Grant, exp.Insert, exp.LoadData, exp.Merge, exp.Refresh, exp.Set, exp.TruncateTable,
    exp.Update, exp.Use,
)  # fmt: skip


class NotSql(Exception):
    """The text is certainly invalid; `fault` has the error and its position."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.says)
        self.fault = fault


class NotAQuery(Exception):
    """The text is certainly not a query; the message says what it is."""


@dataclass(frozen=True)
class Reference:
    """A table that a SQL text reads, and its position in the text (from 1)."""

    name: str
    line: int = 1
    column: int = 1

    def place(self) -> tuple[int, int]:
        """The position, for sorting."""
        return self.line, self.column


def sql_references(sql: str) -> tuple[Reference, ...] | None:
    """The tables read by name, in order of appearance; None if the text cannot be parsed offline.

    Qualified names (`catalog.database.table`) belong to Spark's catalog and are excluded. Raises NotAQuery
    for statements with side effects, several statements, or none; NotSql for certain errors.
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
    read = [table for table, is_named_before in tables if not is_named_before]
    if _is_unclear(query, {id(table) for table, _ in tables}, read):
        return None
    names = (table.this for table in read if table.name and not table.db)
    found = (Reference(name.name, *place_in(sql, name.meta.get("start", 0))) for name in names)
    first = {each.name.lower(): each for each in sorted(found, key=Reference.place, reverse=True)}
    return tuple(sorted(first.values(), key=Reference.place))


def parsed_query(sql: str) -> exp.Query:
    """The tree of one query.

    sqlglot parses `GROUP BY window(…)` as a WINDOW clause, so the word becomes an ordinary name there. It also
    ignores a comma before FROM; Spark then treats FROM as the name of a column.
    """
    dialect = Spark()
    tokens = dialect.tokenize(sql)
    for token, following in pairwise(tokens):
        if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.VAR
        if token.token_type in (TokenType.COMMA, TokenType.SELECT) and following.token_type == TokenType.FROM:
            raise ValueError("FROM is a name here")
    # A comment after the last semicolon is a separate tree.
    parsed = dialect.parser().parse(tokens, sql)
    trees = [tree for tree in parsed if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(trees) != 1:
        raise NotAQuery(f"{len(trees)} statements" if trees else "no statement")
    (tree,) = trees
    if isinstance(tree, _STATEMENTS):
        first = tokens[0].text.upper()
        raise NotAQuery(tree.key.upper() if first == "WITH" else first)
    if not isinstance(tree, exp.Query):
        raise ValueError("unknown kind of statement")
    return tree


def _with_small_names(query: exp.Query) -> set[str]:
    """Lowercase the names of WITH queries in their definitions and uses.

    Spark ignores their case, but sqlglot does not. sqlglot determines which of them are in scope.
    """
    named = [cte.args["alias"].this for cte in query.find_all(exp.CTE)]
    small = {name.name.lower() for name in named}
    tables = [table.this for table in query.find_all(exp.Table) if not table.db]
    read = [name for name in tables if isinstance(name, exp.Identifier) and name.name.lower() in small]
    for name in (*named, *read):
        name.set("this", name.name.lower())
    return small


def _tables(scopes: list[Scope], small: set[str]) -> Iterator[tuple[exp.Table, bool]]:
    """Every table that is read, and whether it is a WITH query."""
    for scope in scopes:
        for table in scope.tables:
            if table.db or table.name not in small:
                yield table, False
                continue
            source = scope.sources.get(table.alias_or_name)
            inner = source.expression if isinstance(source, Scope) and source.is_cte else None
            around = inner.find_ancestor(exp.CTE) if inner else None
            if source is not table and (around is None or around.alias != table.name):
                raise ValueError("two tables have one name here")
            yield table, source is not table or _is_recursive(table)


def _is_recursive(table: exp.Table) -> bool:
    """Whether a WITH RECURSIVE query reads itself here."""
    around = table.find_ancestor(exp.CTE)
    while around:
        clause = around.parent
        if clause and clause.args.get("recursive") and around.alias.lower() == table.name.lower():
            return True
        around = around.find_ancestor(exp.CTE)
    return False


def _is_unclear(query: exp.Query, seen: set[int], read: list[exp.Table]) -> bool:
    """Whether sqlglot might parse the text differently from Spark."""
    # A table where sqlglot expects none, such as in the argument of a function in FROM.
    hidden = (table for table in query.find_all(exp.Table) if id(table) not in seen)
    if any(not isinstance(table.parent, exp.JoinHint) for table in hidden):
        return True
    # Spark rejects the syntax of other dialects, or treats the words as names.
    for node in query.find_all(exp.Distinct, exp.Fetch, exp.Into, exp.Lock, exp.Qualify):
        if not isinstance(node, exp.Distinct) or node.args.get("on"):
            return True
    for table in read:
        match table.this:
            case exp.Anonymous() as function if str(function.this).lower() != "range":
                # A function hides what is read.
                return True
            case exp.Identifier() as name if (
                table.name.upper() == "STREAM" and table.alias and not name.quoted
            ):
                # sqlglot parses `STREAM t` as a table with a different name.
                return True
            case exp.Identifier() | exp.Func():
                continue
            case _:
                return True
    return False


References = Callable[[TableSpec], "tuple[Reference, ...] | None"]

SESSION_PARAMETER = "spark"
"""A parameter of a table function with this name receives the session instead of a table."""


def offline_references(table: TableSpec) -> tuple[Reference, ...] | None:
    """What a table reads, as far as known without Spark."""
    if table.deduplicate:
        return (Reference(table.deduplicate.reads),)
    if table.function:
        return tuple(Reference(name) for name in table.function.parameters if name != SESSION_PARAMETER)
    try:
        return sql_references(table.sql or "")
    except NotAQuery as error:
        raise PipelineError(SQL_NOT_A_QUERY.at(table.position, name=table.name, kind=str(error))) from None
    except NotSql as error:
        fault = error.fault
        place = table.text.at(fault.line, fault.column) if table.text else table.position
        raise PipelineError(SQL_SYNTAX.at(place, name=table.name, says=fault.says, hint=fault.hint)) from None


@dataclass(frozen=True)
class Graph:
    """Which table reads which. A table whose SQL cannot be parsed offline has None."""

    spec: PipelineSpec
    reads: Mapping[str, tuple[str, ...] | None]
    problems: tuple[Problem, ...] = ()
    faulty: frozenset[str] = frozenset()
    """Tables that cannot be built; tables that read them are not listed."""

    @classmethod
    def of(
        cls, spec: PipelineSpec, references: References = offline_references, besides: Iterable[str] = ()
    ) -> Graph:
        """The graph with all of its problems: invalid queries, unknown tables, cycles.

        `besides` are other declared names that are not in the spec because they are invalid.
        """
        names = {name.lower(): name for name in (*besides, *spec.names)}
        built = {name.lower() for name in spec.names}
        reads: dict[str, tuple[str, ...] | None] = {source.name: () for source in spec.sources}
        problems: list[Problem] = []
        faulty: set[str] = set()
        for table in spec.tables:
            try:
                found = references(table)
            except PipelineError as error:
                problems += error.problems
                faulty.add(table.name)
                found = ()
            if found is None:
                reads[table.name] = None
                continue
            lowered = [reference.name.lower() for reference in found]
            reads[table.name] = tuple(names[name] for name in lowered if name in built)
            if not built.issuperset(lowered):
                faulty.add(table.name)
            for reference in (each for each in found if each.name.lower() not in names):
                place, where = _place_of(table, reference), f"Table `{table.name}`"
                problems.append(_unknown(place, where, reference.name, names))
        for sink in spec.sinks:
            if sink.reads.lower() not in names:
                place, where = sink.reads_position or sink.position, f"Sink `{sink.name}`"
                problems.append(_unknown(place, where, sink.reads, names))
        graph = cls(spec, reads)
        circles = dict(graph._circles())
        return replace(
            graph, problems=(*problems, *circles.values()), faulty=frozenset(faulty.union(*circles))
        )

    def upstream(self, *names: str) -> tuple[str, ...]:
        """The sources and tables that `names` need, including themselves, each after all that it reads."""
        order: dict[str, None] = {}
        begun: set[str] = set()
        waiting = [(name, False) for name in reversed(names)]
        while waiting:
            name, done = waiting.pop()
            if done:
                order[name] = None
            elif name not in begun:
                begun.add(name)
                waiting.append((name, True))
                waiting += [(other, False) for other in reversed(self.reads.get(name) or ())]
        return tuple(order)

    def readers(self, name: str) -> list[SinkSpec]:
        """The sinks whose queries need a source or table."""
        names = {each.lower(): each for each in self.spec.names}
        return [
            sink
            for sink in self.spec.sinks
            if sink.reads.lower() in names and name in self.upstream(names[sink.reads.lower()])
        ]

    def possible_readers(self, name: str) -> list[SinkSpec]:
        """The sinks whose queries need, or might need, a source or table: offline, some SQL is unknown."""
        unknown = [table for table, reads in self.reads.items() if reads is None]
        found = [sink for each in (name, *unknown) for sink in self.readers(each)]
        return [sink for sink in self.spec.sinks if sink in found]

    def sound(self, name: str) -> bool:
        """Whether a source or table and all that it needs can be built, according to the graph."""
        declared = next((each for each in self.reads if each.lower() == name.lower()), None)
        return declared is not None and self.faulty.isdisjoint(self.upstream(declared))

    def streaming(self, name: str) -> bool | None:
        """Whether a source or table is a stream: it is if anything it reads is."""
        answers: dict[str, bool | None] = {source.name: not source.static for source in self.spec.sources}
        for each in self.upstream(name):
            if each not in answers:
                reads = self.reads.get(each)
                found = [None] if reads is None else [answers.get(other) for other in reads]
                answers[each] = True if True in found else None if None in found else False
        return answers[name]

    def _circles(self) -> Iterator[tuple[frozenset[str], Problem]]:
        places = {table.name: table.position for table in self.spec.tables}
        reported: set[frozenset[str]] = set()
        for name in places:
            circle = self._circle_from(name)
            if circle and frozenset(circle) not in reported:
                reported.add(frozenset(circle))
                yield frozenset(circle), TABLE_CYCLE.at(places[name], cycle=" → ".join((*circle, circle[0])))

    def _circle_from(self, start: str) -> tuple[str, ...] | None:
        """The shortest path from a table back to itself."""
        paths: list[tuple[str, ...]] = [(start,)]
        seen = {start}
        while paths:
            path = paths.pop(0)
            for other in self.reads.get(path[-1]) or ():
                if other == start:
                    return path
                if other not in seen:
                    seen.add(other)
                    paths.append((*path, other))
        return None


def _place_of(table: TableSpec, reference: Reference) -> Position | None:
    if table.sql is not None and table.text is not None:
        return table.text.at(reference.line, reference.column)
    if table.function is not None:
        return table.function.defined or table.position
    return (table.deduplicate and table.deduplicate.reads_position) or table.position


def _unknown(place: Position | None, where: str, name: str, names: Mapping[str, str]) -> Problem:
    declared = f"Use a declared source or table: {', '.join(sorted(names.values())) or 'none'}."
    hint = did_you_mean(name, names.values(), declared)
    return TABLE_NOT_FOUND.at(place, where=where, name=name, hint=hint)
