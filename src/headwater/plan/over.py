"""The functions of a plan that look at other rows."""

from __future__ import annotations

import re

from headwater.plan.tree import Node

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
