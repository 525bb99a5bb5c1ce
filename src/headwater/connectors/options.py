"""Connector options for Spark. Only this module reveals the secrets of a connector."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

from headwater.errors import Place, Problem
from headwater.errors.catalogue.pipelines import (
    CLASS_METHOD_MISSING,
    CLASS_NEEDS_ARGUMENTS,
    CODE_NAME_INVALID,
    FUNCTION_ARGUMENTS_MISMATCH,
)
from headwater.spec import ClassRef, ConnectorOptions, Method, Schema
from headwater.spec.connector import option_text
from headwater.spec.paths import absolute, project_root
from headwater.values import Duration, Secret, count_of
from headwater.values.secrets import hide

TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark options for full precision of times; by default, Spark truncates them to milliseconds."""


def plain(options: ConnectorOptions) -> dict[str, str]:
    """The passed-through options as strings."""
    return {
        key: revealed(value) if isinstance(value, Secret) else value for key, value in options.options.items()
    }


def revealed(secret: Secret, *, percent_encoded: bool = False) -> str:
    """The value of a secret for Spark, or encoded for an address; from now on, it is redacted in all output."""
    return secret.reveal(written=(lambda value: quote(value, safe="")) if percent_encoded else str)


def hidden(text: str) -> None:
    """Redact a string that contains a secret in all output from now on."""
    hide(text)


def option_texts(values: Mapping[str, object]) -> dict[str, str]:
    """Values in the format that Spark reads, without those that are not set."""
    texts = {
        key: f"{value.milliseconds}ms" if isinstance(value, Duration) else option_text(value)
        for key, value in values.items()
        if value is not None
    }
    return {key: str(text) for key, text in texts.items()}


# A password among a connector's keys.


def _only_secret(value: object) -> object:
    # The value is not in the message: it is most likely the password itself.
    if not isinstance(value, Secret):
        raise ValueError("expected a secret; write ${secret:NAME} and set NAME in the environment")
    return value


Password = Annotated[Secret, BeforeValidator(_only_secret)]
"""A secret, never the plain text; `Password | None` if it is optional."""


# A schema in the pipeline file or in a separate file.

SUFFIXES = (".ddl", ".sql", ".json")
SchemaField = Annotated[
    Schema,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}),
]


def read_schema(written: Any, info: ValidationInfo, *, validated: bool = False) -> Schema:
    """The schema, inline or from a file: a name without spaces that ends in .ddl, .sql or .json.

    `not null` is allowed if each row is `validated`.
    """
    schema = _from_file(written, project_root(info)) if _is_file(written) else Schema.of(written)
    for column in schema.columns:
        if not column.nullable and not validated:
            raise ValueError(
                f"column `{column.name}` is `not null`, which this source cannot enforce; "
                "remove it, and add a table with `WHERE … IS NOT NULL`"
            )
    return schema


def _is_file(written: Any) -> bool:
    return isinstance(written, str) and " " not in written.strip() and written.strip().endswith(SUFFIXES)


def _from_file(name: str, root: Path) -> Schema:
    path = Path(absolute(name.strip(), root))
    text = file_text(path)
    try:
        return Schema.of_spark_json(text) if path.suffix == ".json" else Schema.of(text)
    except ValueError as error:
        raise ValueError(f"schema file {path}: {error}") from error


def file_bytes(path: Path | str, what: str = "schema file") -> bytes:
    """The bytes of a file that a key names; ValueError if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"{what} {path} not found") from error
    except OSError as error:
        raise ValueError(f"could not read {what} {path}: {error}") from error


def file_text(path: Path | str) -> str:
    """The text of a schema file; ValueError if it cannot be read."""
    try:
        return file_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"could not read schema file {path}: {error}") from error


# Checks that a user's class has the methods that a connector calls.


def class_problems(
    ref: ClassRef, found: object, methods: Sequence[Method], place: Place | None = None
) -> Iterator[Problem]:
    """Problems that prevent the use of a loaded class; `place` is where the pipeline names it."""
    at = ref.defined or place
    if not isinstance(found, type):
        kind = "a function" if inspect.isroutine(found) else f"a value of type {type(found).__name__}"
        yield CODE_NAME_INVALID.at(place, name=ref.name, file=ref.file, kind=kind, wanted="a class")
        return
    # Without methods to call, Headwater creates no object either: Spark creates it.
    needs = _needed(found) if methods else ""
    if needs:
        yield CLASS_NEEDS_ARGUMENTS.at(at, name=ref.name, needs=needs)
    for method in methods:
        value = inspect.getattr_static(found, method.name, None)
        called = getattr(found, method.name, None)
        if called is None and not method.required:
            continue
        if not callable(called):
            yield method_missing(ref.name, method, at)
        elif not _takes(called, value, method):
            yield method_arguments_problem(ref.name, method, _parameters(called), at)


def method_missing(name: str, method: Method, place: Place | None) -> Problem:
    """The problem of a class without a required method."""
    takes = ", ".join(("self", *method.passes))
    return CLASS_METHOD_MISSING.at(place, name=name, method=method.name, takes=takes)


def method_arguments_problem(name: str, method: Method, takes: str, place: Place | None) -> Problem:
    """The problem of a method that does not accept its arguments."""
    passed = ", ".join(("self", *method.passes))
    function = f"{name}.{method.name}"
    return FUNCTION_ARGUMENTS_MISMATCH.at(
        place,
        function=function,
        short=method.name,
        takes=takes,
        count=count_of(len(method.passes) + 1, "argument"),
        passed=passed,
    )


def _needed(found: type) -> str:
    """The parameters that the constructor requires."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:
        # A class in C has no signature; creating an object shows whether it works.
        return ""
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each for each in parameters if each.default is each.empty and each.kind not in optional]
    return ", ".join(each.name for each in needed)


def _takes(called: Callable[..., Any], value: object, method: Method) -> bool:
    bound = isinstance(value, classmethod | staticmethod)
    try:
        inspect.signature(called).bind(*(() if bound else ("self",)), *method.passes)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _parameters(called: Callable[..., Any]) -> str:
    signature = inspect.signature(called)
    return str(signature.replace(return_annotation=inspect.Signature.empty))[1:-1]
