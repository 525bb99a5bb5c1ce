"""Reports Pydantic's validation errors as problems of the catalogue, with the user's file and line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headwater.connectors.registry import EXAMPLES
from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import (
    KEY_MISSING,
    KEY_RENAMED,
    KEY_UNKNOWN,
    SECRET_NOT_ALLOWED,
    VALUE_INVALID,
)
from headwater.loaders.keys import KnownKeys, Model, Part, Route, known_keys
from headwater.values import Position, Secret, capitalized, count_of, nearest
from headwater.values.renamed import form_of, renamed

PLACEHOLDERS = {
    "condition": "cost >= 0",
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
# The expected types by Pydantic's error type, in the terms of the docs.
_EXPECTED = {
    "bool": "`true` or `false`",
    "datetime": "a timestamp such as 2026-01-31 12:00:00",
    "dict": "a mapping",
    "float": "a number",
    "int": "an integer",
    "list": "a list",
    "model": "a mapping",
    "string": "a string",
    "tuple": "a string or a list",
}
LOOK_UP = "Correct the value. The pipeline reference and `headwater schema` list the accepted values."
_ADVICE = re.compile(
    r"(.*?)[;:] ((?:did you mean|add|choose|create|fix|give|leave|omit|quote|remove|rename|set|use|write) "
    r".*?[.?]?)$",
    re.DOTALL,
)
_QUOTED = re.compile(r"'([^']*)'")


def unknown_keys(part: Part, known: KnownKeys, around: str = "") -> list[Problem]:
    """A problem for each unknown key, with the most similar known one."""
    return [
        unknown_key(part.of_key(key), around or part.where, key, known)
        for key in part.values
        if key not in known
    ]


def unknown_key(place: Position, where: str, key: str, known: KnownKeys) -> Problem:
    """The problem of a key that is unknown, or that has been renamed."""
    new = renamed(key, known.keys)
    if new:
        return KEY_RENAMED.at(place, where=titled(where), key=key, new=new, form=form_of(new))
    return KEY_UNKNOWN.at(place, where=titled(where), key=key, hint=known.hint(key))


def titled(where: str) -> str:
    """The start of a message: "the source `orders`" becomes "Source `orders`"."""
    return capitalized(where.removeprefix("the ").removeprefix("a "))


def meant_by_others(part: Part, known: KnownKeys) -> frozenset[str]:
    """The missing keys that unknown keys most likely misspell."""
    meant = (known.meant(key) for key in part.values if key not in known)
    return frozenset(key for key in meant if key and key not in part.values)


def misspelt_required(model: type[BaseModel], part: Part, others: Collection[str]) -> dict[str, str]:
    """Misspelled required keys, with the key each one means; `others` can be valid keys of a connector."""
    known = known_keys(model)
    wanted = {name for name, field in model.model_fields.items() if field.is_required()} - part.values.keys()
    likely = {key: known.meant(key) for key in part.values if key not in others}
    return {key: meant for key, meant in likely.items() if meant in wanted}


def read_keys(
    model: type[Model], part: Part, around: str = ""
) -> tuple[Model | None, list[Problem], frozenset[str]]:
    """The validated model, all problems, and the keys that unknown keys most likely misspell.

    `around` names the object in messages about unknown keys, if it differs from `part.where`.
    """
    known = known_keys(model)
    misspelt = meant_by_others(part, known)
    problems = unknown_keys(part, known, around)
    found = validated(model, part, misspelt)
    return (None, problems + found, misspelt) if isinstance(found, list) else (found, problems, misspelt)


def validated(
    model: type[Model], part: Part, misspelt: frozenset[str] = frozenset()
) -> Model | list[Problem]:
    """The model, or all problems of its values.

    Keys in `misspelt` are already reported as unknown keys, so they are not also reported as missing.
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
    # Pydantic reports a value that matches no member of a union once per member: keep the first report.
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
    """Whether a misspelled key causes this: the key is missing, or the model as a whole requires it."""
    if details["type"] == "missing":
        return location in misspelt
    return not location and any(f"`{key}" in details["msg"] for (key, *inner) in misspelt if not inner)


def _known_at(model: Any, location: Route) -> KnownKeys:
    """The keys of the model at a location inside another model; none if no model is there."""
    named = False
    for part in location:
        if named:
            # A key of a mapping of names to models: `model` is already the model of its values.
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
    """The keys that require a real boolean or integer, without Pydantic's conversions."""
    for name, field in model.model_fields.items():
        wanted = {field.annotation, *get_args(field.annotation)} - {type(None)}
        if len(wanted & {bool, int}) == 1:
            yield field.alias or name, (wanted & {bool, int}).pop()


def _loose(key: str, wanted: type, value: object) -> ErrorDetails | None:
    """Reject what Pydantic converts (`yes` to true, true to 1) but YAML 1.2 and the JSON Schema do not."""
    if isinstance(value, str if wanted is bool else bool):
        return ErrorDetails(type=f"{wanted.__name__}_type", loc=(key,), msg="", input=value)
    return None


def _problem(details: ErrorDetails, part: Part, location: Route, known: KnownKeys) -> Problem:
    key, where = ".".join(map(str, location)), titled(part.where)
    if details["type"] == "missing":
        last = str(location[-1])
        example = f"`{last}: {PLACEHOLDERS.get(last, '…')}`"
        return KEY_MISSING.at(part.of_key(*location[:-1]), where=where, key=key, example=example)
    if details["type"] == "extra_forbidden":
        place, last = part.of_key(*location), str(location[-1])
        new = renamed(last, known.keys) if known else None
        if new:
            return KEY_RENAMED.at(place, where=where, key=last, new=new, form=form_of(new))
        hint = known.hint(last) if known else "Remove it."
        return KEY_UNKNOWN.at(place, where=where, key=key, hint=hint)
    shown = _shown(location) if location else ""
    if isinstance(details["input"], Secret):
        what = f"{where}: {shown}" if location else where
        return SECRET_NOT_ALLOWED.at(part.of_value(*location), what=what)
    # An empty value has no position of its own in YAML: it starts where the next token does.
    at = part.of_value if location and details["input"] is not None else part.of_key
    says, hint = _says(details, shown)
    return VALUE_INVALID.at(at(*location), what=where, says=says, hint=hint)


def _shown(location: Route) -> str:
    """The name of a value in a message: `format`, `pairs.x` or "item 2 of `several`"."""
    *outer, last = location
    if isinstance(last, int) and outer:
        return f"item {last + 1} of {_shown(tuple(outer))}"
    return f"`{last}`" if "." in str(last) else f"`{'.'.join(str(part) for part in location)}`"


def _real_location(details: ErrorDetails, written: Any) -> Route:
    """The location of the value without the names that Pydantic gives to the members of a union."""
    real: list[int | str] = []
    for part in details["loc"]:
        listed = isinstance(written, list | tuple) and isinstance(part, int)
        inside = part in written if isinstance(written, Mapping) else listed
        if inside:
            written = written[part]
        if inside or details["type"] == "missing":
            real.append(part)
    return tuple(real)


def _says(details: ErrorDetails, shown: str) -> tuple[str, str]:
    """The problem and the hint; `shown` is the name of the value, empty for a model as a whole."""
    message, kind, value = details["msg"], details["type"], details["input"]
    if kind == "value_error":
        says, hint = _in_two(message.removeprefix("Value error, "))
        return f"invalid {shown}: {says}" if shown else says, hint
    choices = _QUOTED.findall(message) if kind in ("literal_error", "enum") else []
    expected = f"Expected one of {', '.join(choices)}" if choices else f"Expected {_expected(details)}"
    if kind == "bool_type" and isinstance(value, str):
        truth = value.lower() in ("true", "yes", "on")
        # A quoted `true` looks the same without its quotes.
        quoted = value in ("true", "false")
        says = f"invalid {shown}. {expected}, got a string" if quoted else _invalid(shown, value, expected)
        return says, f"Write `{str(truth).lower()}` without quotes."
    says = (
        f"{shown or 'the value'} is empty. {expected}" if value is None else _invalid(shown, value, expected)
    )
    if choices:
        meant = nearest(value, choices) if isinstance(value, str) else None
        other = f"Use one of these values, such as `{choices[0]}`."
        return says, f"Did you mean `{meant}`?" if meant else other
    is_number = kind == "string_type" and isinstance(value, int | float)
    return says, f'Quote it: `"{_as_written(value)}"`.' if is_number else LOOK_UP


def _invalid(shown: str, value: object, expected: str) -> str:
    """A problem that shows the value, unless it is a list or a mapping."""
    if not isinstance(value, str | int | float):
        return f"invalid {shown or 'value'}. {expected}"
    item = shown.startswith("item ")
    return f"invalid {shown or 'value'}{':' if item else ''} `{_as_written(value)}`. {expected}"


def _in_two(message: str) -> tuple[str, str]:
    """Split a message of a validator into the problem and the hint after a colon or semicolon."""
    parts = _ADVICE.match(message)
    if parts is None:
        return message.rstrip("."), LOOK_UP
    advice = capitalized(parts[2])
    if not advice.endswith((".", "?")):
        advice += "?" if advice.startswith("Did") else "."
    return parts[1], advice


def _expected(details: ErrorDetails) -> str:
    """The expected value, in words."""
    kind, context = details["type"], details.get("ctx", {})
    bounds = {
        "greater_than": ("a number greater than", "gt"),
        "greater_than_equal": ("a number of at least", "ge"),
        "less_than": ("a number less than", "lt"),
        "less_than_equal": ("a number of at most", "le"),
    }
    if kind in bounds:
        words, bound = bounds[kind]
        return f"{words} {str(context[bound]).removesuffix('.0')}"
    if kind in ("too_short", "too_long"):
        bound = "min_length" if kind == "too_short" else "max_length"
        items = count_of(context[bound], "item")
        most = "at least" if kind == "too_short" else "at most"
        return f"{most} {items}, got {context['actual_length'] or 'none'}"
    if kind == "string_too_short":
        least = context["min_length"]
        return "a non-empty string" if least == 1 else f"a string of at least {least} characters"
    if kind == "string_pattern_mismatch":
        return f"a string that matches `{context['pattern']}`"
    word = _EXPECTED.get(kind.partition("_")[0], "")
    if word and (kind == "string_type" or not kind.startswith("string_")):
        return word
    message = details["msg"].rstrip(".").replace(" after validation", "")
    return re.sub(r"^\w+ should be ", "a value ", message)


def _as_written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
