"""Certain errors of a SQL text, detected without Spark.

sqlglot accepts less than Spark does, and both accept almost any word as a name: `SELECT a FROM t WHERE` is a
table with the alias `WHERE`. So a text that sqlglot rejects is wrong only if Spark cannot accept it either: its
first word starts no statement, a quote or parenthesis is not closed, or a word that looks like a keyword is
followed by something that cannot follow a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headwater.values import did_you_mean, nearest

_QUERIES = ("SELECT", "FROM", "WITH", "VALUES", "TABLE", "MAP", "REDUCE")
# Every word that starts a Spark statement; other code reports that it is not a query, or leaves it to Spark.
_STATEMENTS = (
    "ADD", "ALTER", "ANALYZE", "BEGIN", "CACHE", "CALL", "CLEAR", "COMMENT", "COMMIT", "CREATE", "DECLARE",
    "DELETE", "DESC", "DESCRIBE", "DFS", "DROP", "EXECUTE", "EXPLAIN", "EXPORT", "GRANT", "IMPORT", "INSERT",
    "LIST", "LOAD", "LOCK", "MERGE", "MSCK", "REFRESH", "REPAIR", "REPLACE", "RESET", "REVOKE", "ROLLBACK",
    "SET", "SHOW", "START", "TRUNCATE", "UNCACHE", "UNLOCK", "UPDATE", "USE",
)  # fmt: skip
_CLAUSES = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "ON", "USING", "UNION",
)  # fmt: skip
_BEFORE_BY = ("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "PARTITION")
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.DATE, TokenType.TIMESTAMP)
_OPERAND_ENDS = (*_NAMES, TokenType.NUMBER, TokenType.STRING, TokenType.R_PAREN, TokenType.R_BRACKET)
_OPERAND_BEGINS = (*_NAMES, TokenType.NUMBER, TokenType.STAR)
_SET_OPERATORS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
# After these a name with an alias may follow, or other words may be keywords.
_OTHER_GRAMMARS = (TokenType.LATERAL, TokenType.PIPE_GT)
_ALIKE = 0.75
"""How much like a keyword a word has to be: `FORM` and `FROM`."""
_MISSING = re.compile(r"Missing (.) from \d+:(\d+)")


@dataclass(frozen=True)
class Fault:
    """An error and its position in the text (from 1)."""

    says: str
    line: int = 1
    column: int = 1
    hint: str = ""


def place_in(sql: str, start: int) -> tuple[int, int]:
    """The line and column (from 1) of an offset in a text."""
    return sql.count("\n", 0, start) + 1, start - sql.rfind("\n", 0, start)


def syntax_fault(sql: str) -> Fault | None:
    """An error in every version of Spark; None if that is not certain."""
    try:
        tokens = Spark().tokenize(sql)
    except TokenError as error:
        # Only the error behind it says which quote is missing, and where it was opened.
        missing = _MISSING.match(str(error.__cause__))
        if missing is None:
            return None
        mark, place = missing[1], place_in(sql, int(missing[2]))
        return Fault(f"the quote {mark} is not closed", *place, f"Add the closing {mark}.")
    except SqlglotError:
        return None
    return next(_faults(tokens), None)


def _faults(tokens: list[Token]) -> Iterator[Fault]:
    first = tokens[0] if tokens else None
    known = first is None or first.text.upper() in (*_QUERIES, *_STATEMENTS)
    if first and first.token_type is TokenType.VAR and not known:
        yield _at(first, f"a query cannot start with `{first.text}`", _meant(first.text, _QUERIES))
    yield from _parentheses(tokens)
    if not any(token.token_type in _OTHER_GRAMMARS for token in tokens):
        yield from _misspelt(tokens)


def _parentheses(tokens: list[Token]) -> Iterator[Fault]:
    opened: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            opened.append(token)
        elif token.token_type is TokenType.R_PAREN:
            if not opened:
                yield _at(token, "`)` has no matching `(`", "Remove it, or add the `(`.")
                return
            opened.pop()
    if opened:
        yield _at(opened[-1], "`(` is not closed", "Add the `)`.")


def _misspelt(tokens: list[Token]) -> Iterator[Fault]:
    """Words between two operands that cannot be an alias because of what follows them."""
    for before, previous, word, following in zip(
        [None, *tokens], tokens, tokens[1:], tokens[2:], strict=False
    ):
        if word.token_type is not TokenType.VAR or not _is_complete(previous, before):
            continue
        meant = _BEFORE_BY if following.text.upper() == "BY" else _CLAUSES
        misplaced = meant is _BEFORE_BY or following.token_type in _OPERAND_BEGINS
        if misplaced and nearest(word.text, meant, _ALIKE):
            says = f"unexpected `{word.text}` before `{following.text}`"
            yield _at(word, says, _meant(word.text, meant))


def _is_complete(token: Token, before: Token | None) -> bool:
    """Whether a keyword or an alias must follow."""
    kind, kind_before = token.token_type, before.token_type if before else None
    if kind is TokenType.STAR:
        # Of a select list; elsewhere it multiplies, and an operand follows.
        return kind_before in (TokenType.SELECT, TokenType.COMMA, TokenType.DOT)
    if kind in (TokenType.ALL, TokenType.DISTINCT):
        return kind_before in _SET_OPERATORS
    return kind in _SET_OPERATORS or (kind in _OPERAND_ENDS and token.text.upper() != "STREAM")


def _meant(word: str, words: tuple[str, ...]) -> str:
    return did_you_mean(word, words, "Start it with `SELECT`.", _ALIKE)


def _at(token: Token, says: str, hint: str) -> Fault:
    return Fault(says, token.line, token.col - len(token.text) + 1, hint)
