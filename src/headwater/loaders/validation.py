"""Pydantic's findings, told as problems of the catalogue at the user's own line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headwater.connectors.registry import EXAMPLES
from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import KEY_MISSING, KEY_UNKNOWN, SECRET_NOT_ALLOWED, VALUE_INVALID
from headwater.loaders.keys import KnownKeys, Model, Part, Route, known_keys
from headwater.values import Secret, capitalized, nearest

PLACEHOLDERS = {
    "check": "cost >= 0",
    "class": '"feeds.py:Tickers"',
    "column": "shown_at",
    "connector": EXAMPLES["source"],
    "delay": "10 minutes",
    "format": "json",
    "function": '"out.py:write"',
    "host": "localhost",
    "name": "my_pipeline",
    "path": "data/",
    "pipeline": "my_pipeline.yml",
    "port": "9999",
    "reads": "a_table",
    "rows_per_batch": "10",
    "steps": "[{feed: {words: [{word: owl}]}}]",
    "table": "shop.orders",
    "tests": "{owls are counted: [{feed: {words: [{word: owl}]}}]}",
}
# What is wanted, in the words of these pages and not of the library that looked.
_WANTED = {
    "bool": "true or false",
    "datetime": "a time such as 2026-01-31 12:00:00",
    "dict": "keys with values",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "keys with values",
    "string": "text",
    "tuple": "text or a list",
}
LOOK_UP = "Mend the value; the reference page of the docs and `headwater schema` say what it takes."
_ADVICE = re.compile(r"(.*)[;:] ((?:did you mean|give|leave|write) .*?[.?]?)$", re.DOTALL)
_QUOTED = re.compile(r"'([^']*)'")


def unknown_keys(part: Part, known: KnownKeys, around: str = "") -> list[Problem]:
    """A problem for each key that is not known here, with the nearest one that is."""
    return [
        KEY_UNKNOWN.at(part.of_key(key), where=around or part.where, key=key, hint=known.hint(key))
        for key in part.values
        if key not in known
    ]


def meant_by_others(part: Part, known: KnownKeys) -> frozenset[str]:
    """The known keys that are not there, and for which unknown ones most likely stand."""
    meant = (known.meant(key) for key in part.values if key not in known)
    return frozenset(key for key in meant if key and key not in part.values)


def misspelt_required(model: type[BaseModel], part: Part, others: Collection[str]) -> dict[str, str]:
    """Keys that stand for missing required ones; `others` may be right although the model lacks them."""
    known = known_keys(model)
    wanted = {name for name, field in model.model_fields.items() if field.is_required()} - part.values.keys()
    likely = {key: known.meant(key) for key in part.values if key not in others}
    return {key: meant for key, meant in likely.items() if meant in wanted}


def read_keys(
    model: type[Model], part: Part, around: str = ""
) -> tuple[Model | None, list[Problem], frozenset[str]]:
    """What was written as one model, all that is wrong with it, and the keys for which unknown ones stand.

    `around` is what has the keys, in words, if that is not what they are keys of.
    """
    known = known_keys(model)
    misspelt = meant_by_others(part, known)
    problems = unknown_keys(part, known, around)
    found = validated(model, part, misspelt)
    return (None, problems + found, misspelt) if isinstance(found, list) else (found, problems, misspelt)


def validated(
    model: type[Model], part: Part, misspelt: frozenset[str] = frozenset()
) -> Model | list[Problem]:
    """The model, or all that is wrong with what was written for it.

    Keys that are `misspelt` have been told as unknown ones, and are not told again as missing.
    """
    known = known_keys(model)
    values = {key: value for key, value in part.values.items() if key in known}
    loose = [_loose(key, wanted, values[key]) for key, wanted in _strict_keys(model) if key in values]
    found = [details for details in loose if details]
    try:
        made = model.model_validate(values, context={"root": part.declaration.root})
    except ValidationError as error:
        found += error.errors(include_url=False)
    else:
        if not found:
            return made
    # A value that fits no member of a union is reported once for each member: the first one will do.
    first: dict[Route, ErrorDetails] = {}
    for details in found:
        first.setdefault(_real_location(details, part.values), details)
    inner = {location: _known_at(model, location[:-1]) for location in first}
    told: set[Route] = {(key,) for key in misspelt} | {
        (*location[:-1], meant)
        for location, details in first.items()
        if details["type"] == "extra_forbidden" and (meant := inner[location].meant(str(location[-1])))
    }
    return [
        _problem(details, part, location, inner[location])
        for location, details in first.items()
        if not _follows_from(location, details, told)
    ]


def _follows_from(location: Route, details: ErrorDetails, misspelt: Collection[Route]) -> bool:
    """Whether this only follows from a misspelt key: one is missing, or the model as a whole wants one."""
    if details["type"] == "missing":
        return location in misspelt
    return not location and any(f"`{key}" in details["msg"] for (key, *inner) in misspelt if not inner)


def _known_at(model: Any, location: Route) -> KnownKeys:
    """The keys of the model that stands at a place inside another; none where no model stands."""
    named = False
    for part in location:
        if named:
            # The name of one of several things that are keyed by name: their model stands here already.
            named = False
            continue
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        inside = fields[str(part)].annotation if str(part) in fields else None
        models = [
            each
            for each in (inside, *get_args(inside))
            if isinstance(each, type) and issubclass(each, BaseModel)
        ]
        if not models:
            return KnownKeys()
        model, named = models[0], get_origin(inside) is dict
    return KnownKeys() if named else known_keys(model)


def _strict_keys(model: type[BaseModel]) -> Iterator[tuple[str, type]]:
    """The keys that take a truth value or a number, and nothing that is only nearly one."""
    for name, field in model.model_fields.items():
        wanted = {field.annotation, *get_args(field.annotation)} - {type(None)}
        if len(wanted & {bool, int}) == 1:
            yield field.alias or name, (wanted & {bool, int}).pop()


def _loose(key: str, wanted: type, value: object) -> ErrorDetails | None:
    """Pydantic takes `yes` for true and true for 1; YAML 1.2 and the JSON Schema do not."""
    if isinstance(value, str if wanted is bool else bool):
        return ErrorDetails(type=f"{wanted.__name__}_type", loc=(key,), msg="", input=value)
    return None


def _problem(details: ErrorDetails, part: Part, location: Route, known: KnownKeys) -> Problem:
    key, where = ".".join(map(str, location)), part.where
    if details["type"] == "missing":
        last = str(location[-1])
        example = f"`{last}: {PLACEHOLDERS.get(last, '…')}`"
        return KEY_MISSING.at(part.of_key(*location[:-1]), where=where, key=key, example=example)
    if details["type"] == "extra_forbidden":
        hint = known.hint(str(location[-1])) if known else "Take it out."
        return KEY_UNKNOWN.at(part.of_key(*location), where=where, key=key, hint=hint)
    what = f"{_shown(location)} of {where}" if location else capitalized(where)
    if isinstance(details["input"], Secret):
        return SECRET_NOT_ALLOWED.at(part.of_value(*location), what=what)
    # An empty value stands nowhere: YAML says that it begins where the next thing does.
    at = part.of_value if location and details["input"] is not None else part.of_key
    says, hint = _says(details)
    return VALUE_INVALID.at(at(*location), what=what, says=says, hint=hint)


def _shown(location: Route) -> str:
    """The way to a value as a user would name it."""
    *outer, last = location
    if isinstance(last, int) and outer:
        return f"Item {last + 1} of {_shown(tuple(outer))}"
    return f"`{last}`" if "." in str(last) else f"`{'.'.join(str(part) for part in location)}`"


def _real_location(details: ErrorDetails, written: Any) -> Route:
    """The way to the value without pydantic's own words for the members of a union."""
    real: list[int | str] = []
    for part in details["loc"]:
        listed = isinstance(written, list | tuple) and isinstance(part, int)
        inside = part in written if isinstance(written, Mapping) else listed
        if inside:
            written = written[part]
        if inside or details["type"] == "missing":
            real.append(part)
    return tuple(real)


def _says(details: ErrorDetails) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    message, kind, value = details["msg"], details["type"], details["input"]
    if kind == "value_error":
        return _in_two(message.removeprefix("Value error, "))
    if kind in ("literal_error", "enum"):
        return _choice(_QUOTED.findall(message), value)
    says = _wanted(details)
    if value is None:
        return f"it is empty; {says}", LOOK_UP
    says = f"{says}, not `{_as_written(value)}`" if isinstance(value, str | int | float) else says
    if kind == "bool_type" and isinstance(value, str):
        truth = value.lower() in ("true", "yes", "on")
        # `not `true`` would read odd: it was quoted.
        says = says.replace(f"`{value}`", "text") if value in ("true", "false") else says
        return says, f"Write `{str(truth).lower()}`, without quotes."
    return says, 'Quote it: `"…"`.' if "text is" in says and isinstance(value, int | float) else LOOK_UP


def _in_two(message: str) -> tuple[str, str]:
    """Our own messages end with what to do, after a colon or a semicolon."""
    parts = _ADVICE.match(message)
    if parts is None:
        return message.rstrip("."), LOOK_UP
    advice = capitalized(parts[2])
    if not advice.endswith((".", "?")):
        advice += "?" if advice.startswith("Did") else "."
    return parts[1], advice


def _wanted(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in ("too_short", "string_too_short"):
        return "at least one value is wanted here" if kind == "too_short" else "a longer text is wanted here"
    if kind == "greater_than":
        return f"a number greater than {context['gt']} is wanted here"
    word = _WANTED.get(kind.partition("_")[0], "")
    if word and (kind == "string_type" or not kind.startswith("string_")):
        return f"{word} {'are' if word.endswith('values') else 'is'} wanted here"
    message = details["msg"].rstrip(".").replace(" after validation", "")
    return re.sub(r"^\w+ should", "it should", message)


def _choice(choices: list[str], value: object) -> tuple[str, str]:
    says = f"one of {', '.join(choices)} is wanted here"
    if value is None:
        return f"it is empty; {says}", f"Write one of them, for instance `{choices[0]}`."
    meant = nearest(value, choices) if isinstance(value, str) else None
    hint = f"Did you mean `{meant}`?" if meant else f"Write one of them, for instance `{choices[0]}`."
    return (f"{says}, not `{_as_written(value)}`" if isinstance(value, str | int | float) else says), hint


def _as_written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
