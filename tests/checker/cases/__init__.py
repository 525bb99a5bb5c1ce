"""Cases of the matrix: a query with mode, sink and trigger, judged by the check and by a real start.

What is right is not written down here: the real start says it, see `tests.checker.matrix`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MODES = ("append", "update", "complete")
CHANGING = ("update", "complete")
AVAILABLE_NOW = "available now"
ANY_ROWS = "any rows"
"""In place of a batch query: the rows can't be foretold, and it is enough that some come."""

Query = str | Callable[..., Any]
"""SQL, or a function whose parameters name sources (or `spark`) and that returns a DataFrame.

Functions and classes for Python workers have to be defined inside it: workers don't see these modules.
"""


@dataclass(frozen=True)
class Case:
    """One query in one mode into one sink, over the sources of `tests.checker.cases.sources`."""

    kind: str
    """What kind of query it is, as the mode table in the docs names it: `aggregation without watermark`."""
    query: Query
    mode: str = "append"
    sink: str = "memory"
    """memory, console, noop, foreach, foreach_batch, files."""
    trigger: str = AVAILABLE_NOW
    variant: str = ""
    """What tells it apart from another case of its kind."""
    keys: tuple[str, ...] | None = None
    """In update mode: the columns for which the last row counts; None where every row counts."""
    final: str = ""
    """In append mode: the rows of the batch query that the last watermark has closed, as a SQL condition.

    A result with a column `window` needs none: those whose end has passed.
    """
    batch: Query | None = None
    """The batch query that gives the same rows, where the query itself has no batch form; or `ANY_ROWS`."""
    alone: bool = False
    """It starts Python processes for itself, for which Spark waits ten seconds: one such case at a time."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark; cases with equal ones share a pipeline."""

    @property
    def id(self) -> str:
        """Its name as table and sink of the pipeline: unique among all cases."""
        parts = [self.kind, self.variant, self.mode]
        parts += [self.sink] if self.sink != "memory" else []
        parts += [self.trigger] if self.trigger != AVAILABLE_NOW else []
        return re.sub(r"\W+", "_", " ".join(filter(None, parts))).strip("_").lower()


def in_modes(case: Case, modes: Iterable[str] = MODES) -> list[Case]:
    """The case in each of these modes."""
    return [replace(case, mode=mode) for mode in modes]


def cases(
    kind: str, queries: Query | Mapping[str, Query], modes: Iterable[str] = ("append",), **given: Any
) -> list[Case]:
    """One query or several variants of a kind, each in these modes."""
    variants = queries if isinstance(queries, Mapping) else {"": queries}
    made = [Case(kind, query, variant=variant, **given) for variant, query in variants.items()]
    return [case for each in made for case in in_modes(each, modes)]
