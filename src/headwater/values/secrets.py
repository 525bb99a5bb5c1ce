"""Secrets: known by name until the moment of use, and never printed."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, SupportsIndex
from urllib.parse import quote, quote_plus

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from headwater.errors import PipelineError
from headwater.errors.catalogue.documents import SECRET_FILE, SECRET_MISSING

MASK = "***"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"(\$\$\{)|\$\{secret:([^}]*)\}")


@dataclass(frozen=True)
class SecretName:
    """The part of a text that stands for one secret."""

    name: str


@dataclass(frozen=True, init=False, repr=False)
class Secret:
    """A text with one or more `${secret:NAME}` in it; it holds names, never values.

    A value is looked up only by `reveal`. Printing, formatting and serialising give `***`.
    """

    parts: tuple[str | SecretName, ...]

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "parts", _joined(_split(text)))
        if not self.names:
            raise ValueError("A secret is written ${secret:NAME}, and this text has none.")

    @classmethod
    def of(cls, parts: Iterable[str | SecretName]) -> Secret:
        """A secret from parts already told apart, so that plain text in them is never read again."""
        made = cls.__new__(cls)
        object.__setattr__(made, "parts", _joined(parts))
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """The names in it, each once, in order."""
        return tuple(dict.fromkeys(part.name for part in self.parts if isinstance(part, SecretName)))

    @property
    def template(self) -> str:
        """The text as it is written in a pipeline file."""
        return "".join(
            part.replace("${", "$${") if isinstance(part, str) else f"${{secret:{part.name}}}"
            for part in self.parts
        )

    def missing(self, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
        """The names that neither the environment nor a readable file gives a value to."""
        return tuple(name for name in self.names if not _is_available(name, environ))

    def reveal(self, environ: Mapping[str, str] = os.environ) -> str:
        """The text with the values in it, which `scrub` removes from now on."""
        values = {name: _look_up(name, environ) for name in self.names}
        text = "".join(part if isinstance(part, str) else values[part.name] for part in self.parts)
        _REVEALED.add(*values.values(), text)
        return text

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("A secret can't be pickled: reveal it where it is used.")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.is_instance_schema(cls, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "examples": ["${secret:NAME}"]}


def secret(name: str) -> Secret:
    """The secret of that name, for declarations in Python."""
    return Secret(f"${{secret:{name}}}")


def hide(*values: str) -> None:
    """Let `scrub` remove these values from now on; those of up to three letters take too much along."""
    _REVEALED.add(*(value for value in values if len(value) > 3))


def scrub(text: str) -> str:
    """The text with every value that this process has revealed replaced by `***`."""
    return _REVEALED.scrub(text)


def scrub_within(value: object) -> object:
    """A value on its way to JSON, with every text in it scrubbed; numbers stay numbers, whatever they are."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {scrub_within(key): scrub_within(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_within(each) for each in value]
    return value if value is None or isinstance(value, int | float) else scrub(str(value))


class Revealed:
    """The values that a process has revealed, in every form in which they may turn up in a text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms: frozenset[str] = frozenset()

    def add(self, *values: str) -> None:
        """Remember values; an empty one hides nothing and is left out."""
        with self._lock:
            self._forms |= {form for value in values for form in _forms(value) if form}

    def scrub(self, text: str) -> str:
        """Mask all values in the text; where values overlap, their union is masked."""
        spans = sorted(span for form in self._forms for span in _spans(form, text))
        pieces, end = [], 0
        for start, stop in spans:
            if start >= end:
                pieces += [text[end:start], MASK]
            end = max(end, stop)
        return "".join([*pieces, text[end:]])


_REVEALED = Revealed()


def _forms(value: str) -> set[str]:
    escaped = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    # A value from the environment may hold bytes that are no text; they can't be in an URL.
    quoted = {form(value, safe=safe, errors="replace") for form in (quote, quote_plus) for safe in ("", "/")}
    return {value, *escaped, *quoted}


def _spans(form: str, text: str) -> Iterable[tuple[int, int]]:
    start = text.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = text.find(form, start + 1)


def _split(text: str) -> Iterable[str | SecretName]:
    end = 0
    for match in _REFERENCE.finditer(text):
        yield text[end : match.start()]
        if match[1]:
            yield "${"
        elif NAME.fullmatch(match[2]):
            yield SecretName(match[2])
        else:
            raise ValueError(f'"{match[0]}" does not name a secret: write ${{secret:NAME}}.')
        end = match.end()
    yield text[end:]


def _joined(parts: Iterable[str | SecretName]) -> tuple[str | SecretName, ...]:
    """Neighbouring texts as one, so that equal secrets have equal parts."""
    joined: list[str | SecretName] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part:
            joined.append(part)
    return tuple(joined)


def _look_up(name: str, environ: Mapping[str, str]) -> str:
    if name in environ:
        return environ[name]
    file = environ.get(f"{name}_FILE")
    if file is None:
        raise PipelineError(SECRET_MISSING.at(name=name))
    try:
        return _without_line_end(Path(file).read_bytes().decode("utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PipelineError(SECRET_FILE.at(name=name, file=file, reason=reason)) from None


def _is_available(name: str, environ: Mapping[str, str]) -> bool:
    try:
        _look_up(name, environ)
    except PipelineError:
        return False
    return True


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
