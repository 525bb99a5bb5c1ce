"""The expectations of a table, as they are declared in either form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import BAD_NAME
from headwater.loaders.declaration import Places, Route
from headwater.loaders.keys import NAME, ExpectationKeys
from headwater.spec import Expectation


def expect(
    check: str, *, otherwise: Literal["warn", "drop", "fail", "quarantine"] = "warn"
) -> Mapping[str, str]:
    """A condition in SQL that the rows of a table should fulfil, and what becomes of those that don't."""
    return {"check": check, "else": otherwise}


def expectations_of(
    keys: Mapping[str, ExpectationKeys], written: Any, places: Places, route: Route
) -> tuple[Expectation, ...]:
    """What was declared, with the place of each condition."""
    ways = {name: (name,) if isinstance(written[name], str) else (name, "check") for name in keys}
    return tuple(
        Expectation(
            name=name,
            check=each.check,
            otherwise=each.otherwise,
            position=places.of_key((*route, name)),
            text=places.of_text((*route, *ways[name])),
        )
        for name, each in keys.items()
    )


def name_problems(written: Any, table: str, places: Places, route: Route) -> Iterator[Problem]:
    """Names by which an expectation can't be counted."""
    for name in written if isinstance(written, Mapping) else ():
        if not re.match(NAME, name):
            cleaned = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "name"
            suggestion = f"_{cleaned}" if cleaned[0].isdigit() else cleaned
            where = f"an expectation of the table `{table}`"
            yield BAD_NAME.at(places.of_key((*route, name)), name=name, where=where, suggestion=suggestion)
