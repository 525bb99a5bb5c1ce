"""Pydantic's findings, told as problems of the catalogue at the user's own line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import MISSING_KEY, SECRET_NOT_HERE, UNKNOWN_KEY, WRONG_VALUE
from headwater.loaders.declaration import Declaration, Route
from headwater.spec import Declared
from headwater.values import Secret, nearest

Model = TypeVar("Model", bound=BaseModel)

PLACEHOLDERS = {
    "connector": "files",
    "path": "data/",
    "format": "json",
    "reads": "a_table",
    "name": "my_pipeline",
}
_QUOTED = re.compile(r"'([^']*)'")


def known_keys(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys a user can write for a model."""
    hidden = model.where_only if issubclass(model, Declared) else frozenset()
    return tuple(field.alias or name for name, field in model.model_fields.items() if name not in hidden)


def unknown_keys(
    written: Mapping[str, Any], known: tuple[str, ...], declaration: Declaration, route: Route, where: str
) -> list[Problem]:
    """A problem for each key that is not known here, with the nearest one that is."""
    return [
        UNKNOWN_KEY.at(
            declaration.places.of_key((*route, key)), where=where, key=key, hint=_key_hint(key, known)
        )
        for key in written
        if key not in known
    ]


def validated(
    model: type[Model], written: Mapping[str, Any], declaration: Declaration, route: Route, where: str
) -> Model | list[Problem]:
    """The model, or all that is wrong with what was written for it."""
    known = known_keys(model)
    values = {key: value for key, value in written.items() if key in known}
    try:
        return model.model_validate(values, context={"root": declaration.root})
    except ValidationError as error:
        # A value that fits no member of a union is reported once for each member: the first one will do.
        first: dict[Route, ErrorDetails] = {}
        for details in error.errors(include_url=False):
            first.setdefault(_real_location(details["loc"], written), details)
        return [_problem(details, declaration, route, where, written) for details in first.values()]


def _problem(
    details: ErrorDetails, declaration: Declaration, route: Route, where: str, written: Mapping[str, Any]
) -> Problem:
    location = _real_location(details["loc"], written)
    key = ".".join(str(part) for part in location)
    full = (*route, *location)
    if details["type"] == "missing":
        last = str(location[-1])
        example = f"`{last}: {PLACEHOLDERS.get(last, '…')}`"
        return MISSING_KEY.at(declaration.places.of_key(full[:-1]), where=where, key=key, example=example)
    if details["type"] == "extra_forbidden":
        return UNKNOWN_KEY.at(declaration.places.of_key(full), where=where, key=key, hint="Take it out.")
    if isinstance(details["input"], Secret):
        return SECRET_NOT_HERE.at(declaration.places.of_value(full), where=where, key=key)
    place = declaration.places.of_value(full) if location else declaration.places.of_key(route)
    return WRONG_VALUE.at(
        place, where=where, key=key or str(route[-1] if route else "file"), says=_says(details)
    )


def _real_location(location: tuple[int | str, ...], written: Any) -> Route:
    """The location without pydantic's own words for the members of a union."""
    real: list[int | str] = []
    for index, part in enumerate(location):
        inside = isinstance(written, Mapping) and part in written
        inside = inside or (
            isinstance(written, list | tuple) and isinstance(part, int) and part < len(written)
        )
        if inside:
            written = written[part]
        elif index and index < len(location) and not isinstance(written, Mapping):
            continue
        real.append(part)
    return tuple(real)


def _says(details: ErrorDetails) -> str:
    message = details["msg"]
    if details["type"] == "value_error":
        return message.removeprefix("Value error, ").rstrip(".?")
    says = message[0].lower() + message[1:].rstrip(".")
    value = details["input"]
    if isinstance(value, str | int | float | bool):
        says += f", not `{value}`"
    if isinstance(value, str) and details["type"] in ("literal_error", "enum"):
        meant = nearest(value, _QUOTED.findall(message))
        says += f"; did you mean `{meant}`" if meant else ""
    return says.replace("input should", "it should")


def _key_hint(key: str, known: tuple[str, ...]) -> str:
    meant = nearest(key, known)
    if meant:
        return f"Did you mean `{meant}`?"
    return f"It takes: {', '.join(sorted(known))}."
