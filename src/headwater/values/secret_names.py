"""Options that hold a secret in clear: told by their names or by the form of their values, and masked."""

from __future__ import annotations

import re

from headwater.values.secrets import MASK

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Of the words of a name the last ones say what it holds: `password.file` is a path. Only the names of
# Azure's settings go on with that of an account.
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
    """Whether a value is most likely a secret, by the name of its option."""
    words = " ".join(_WORDS.findall(name)).lower()
    return bool(_NAMES.search(words)) and not _says_nothing(value)


def masked(name: str, value: str) -> str:
    """The value of an option as it may be shown; it differs where the value is a secret, or has one in it."""
    if looks_secret(name, value):
        return MASK
    return _IN_TEXT.sub(_without_secret, _IN_ADDRESS.sub(MASK, value))


def secrets_in(name: str, value: str) -> tuple[str, ...]:
    """The texts in an option's value that must not be shown anywhere.

    A number or a few letters are left out: they stand in many texts that have nothing to do with it.
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
