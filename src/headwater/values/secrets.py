"""Secrets: known by name until they are used, and never printed."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, SupportsIndex
from urllib.parse import quote, quote_plus

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from headwater.errors import PipelineError
from headwater.errors.catalogue.pipelines import SECRET_FILE_UNREADABLE, SECRET_MISSING

MASK = "***"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"(\$\$\{)|\$\{secret:([^}]*)\}")


@dataclass(frozen=True)
class SecretName:
    """The part of a text that refers to one secret."""

    name: str


@dataclass(frozen=True, init=False, repr=False)
class Secret:
    """A string with one or more `${secret:NAME}`; it contains names, never values.

    Only `reveal` looks up a value. Printing, formatting and serializing return `***`.
    """

    parts: tuple[str | SecretName, ...]

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "parts", _joined(_split(text)))
        if not self.names:
            raise ValueError("expected a secret; write ${secret:NAME}")

    @classmethod
    def of(cls, parts: Iterable[str | SecretName]) -> Secret:
        """A secret from parsed parts, so that plain text in them is not parsed again."""
        made = cls.__new__(cls)
        object.__setattr__(made, "parts", _joined(parts))
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its secrets, without duplicates, in order."""
        return tuple(dict.fromkeys(part.name for part in self.parts if isinstance(part, SecretName)))

    @property
    def template(self) -> str:
        """The text as written in a pipeline file."""
        return "".join(
            part.replace("${", "$${") if isinstance(part, str) else f"${{secret:{part.name}}}"
            for part in self.parts
        )

    def missing(self, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
        """The names without a value in the environment or in a readable file."""
        return tuple(name for name in self.names if not _is_available(name, environ))

    def reveal(self, environ: Mapping[str, str] = os.environ, *, written: Callable[[str], str] = str) -> str:
        """The text with the values as `written`, such as percent-encoded; `scrub` masks them from now on."""
        values = {name: _look_up(name, environ) for name in self.names}
        text = "".join(part if isinstance(part, str) else written(values[part.name]) for part in self.parts)
        _REVEALED.add(*values.values(), text)
        return text

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("A secret cannot be pickled. Call `reveal` where you use it.")

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
    """The secret with this name, for declarations in Python."""
    return Secret(f"${{secret:{name}}}")


def hide(*values: str) -> None:
    """Mask these values in `scrub` from now on, except values of up to three characters."""
    _REVEALED.add(*(value for value in values if len(value) > 3))


def scrub(text: str) -> str:
    """The text with all revealed values replaced by `***`."""
    return _REVEALED.scrub(text)


def scrub_within(value: object) -> object:
    """A value for JSON with all its strings scrubbed; numbers are unchanged."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {scrub_within(key): scrub_within(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_within(each) for each in value]
    return value if value is None or isinstance(value, int | float) else scrub(str(value))


class Revealed:
    """The values that this process has revealed, in all forms in which they can appear in a text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms: frozenset[str] = frozenset()

    def add(self, *values: str) -> None:
        """Store values; empty ones are skipped."""
        with self._lock:
            self._forms |= {form for value in values for form in _forms(value) if form}

    def scrub(self, text: str) -> str:
        """Mask all values in the text, including overlapping ones."""
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
    # A value from the environment can contain invalid bytes, which cannot be in a URL.
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
            raise ValueError(f"`{match[0]}` is not a secret; write ${{secret:NAME}}.")
        end = match.end()
    yield text[end:]


def _joined(parts: Iterable[str | SecretName]) -> tuple[str | SecretName, ...]:
    """Join adjacent texts, so that equal secrets have equal parts."""
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
        return Path(file).read_bytes().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not valid UTF-8"
        raise PipelineError(SECRET_FILE_UNREADABLE.at(name=name, file=file, reason=reason)) from None


def _is_available(name: str, environ: Mapping[str, str]) -> bool:
    try:
        _look_up(name, environ)
        return True
    except PipelineError:
        return False


# Options with a plain-text secret: detected by their names or the form of their values, and masked.

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# The last words of a name say what the value is: `password.file` is a path. Only the names of Azure settings
# continue with the name of an account.
_NAMES = re.compile(
    r"\b(passwords?|passwd|passphrase|pwd|pass|secret|token|credentials?|authorization|sas|jaas config"
    r"|auth user info|(api|access|account|secret|private|shared|keystore|key store) ?key)$"
    r"|\b(account key|client secret)\b(?! (file|location|path|provider|type))"
)
_NOTHING = frozenset({"", "true", "false", "none", "null"})
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
_FEWEST_LETTERS = 4
_IN_ADDRESS = re.compile(r"(?<=://)[^/@?#\s:]*:[^/?#\s]+(?=@)")
_IN_TEXT = re.compile(
    r"(\b(?:\w*password|passwd|pwd|\w*secret|\w*token|sig|api_?key|account_?key|(?:shared)?access_?key)\s*=\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s&;,'\"]+)",
    re.IGNORECASE,
)


def looks_secret(name: str, value: str) -> bool:
    """Whether a value is most likely a secret, based on the name of its option."""
    words = " ".join(_WORDS.findall(name)).lower()
    return bool(_NAMES.search(words)) and not _says_nothing(value)


def masked(name: str, value: str) -> str:
    """The value of an option for display: masked if it is or contains a secret."""
    if looks_secret(name, value):
        return MASK
    return _IN_TEXT.sub(_without_secret, _IN_ADDRESS.sub(MASK, value))


def secrets_in(name: str, value: str) -> tuple[str, ...]:
    """The parts of an option's value that must never be shown.

    Numbers and very short values are excluded: they appear in too many unrelated texts.
    """
    inner = (match[2].strip("\"'") for match in _IN_TEXT.finditer(value))
    found = {*([value] if looks_secret(name, value) else []), *_IN_ADDRESS.findall(value), *inner}
    return tuple(sorted(text for text in found if _is_telling(text)))


def _says_nothing(value: str) -> bool:
    return value.strip().lower() in _NOTHING


def _is_telling(text: str) -> bool:
    plain = text.strip()
    return len(plain) >= _FEWEST_LETTERS and not _says_nothing(plain) and not _NUMBER.fullmatch(plain)


def _without_secret(found: re.Match[str]) -> str:
    return found[0] if _says_nothing(found[2].strip("\"'")) else f"{found[1]}{MASK}"
