"""Options of plain programs that hold a secret in clear: told by their names, and masked."""

from __future__ import annotations

import re

from headwater.values.secrets import MASK

_NAMES = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|token|credential|jaas|private.?key|access.?key|account.?key|api.?key"
    r"|sas$|auth",
    re.IGNORECASE,
)
# Names that speak of secrets and hold none.
_HARMLESS = re.compile(
    r"token(izer|provider|service|endpoint)|\.type$|class$|\.mechanism$|location$", re.IGNORECASE
)
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s:]+:[^/@\s]+(?=@)")
_IN_TEXT = re.compile(
    r"(\b(?:password|passwd|pwd|secret|token|sig|apikey|api_key|accountkey)\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s&;,'\"]+)",
    re.IGNORECASE,
)


def looks_secret(name: str) -> bool:
    """Whether the value of an option of this name is most likely a secret."""
    return bool(_NAMES.search(name)) and not _HARMLESS.search(name)


def masked(name: str, value: str) -> str:
    """The value of an option as it may be shown."""
    if looks_secret(name):
        return MASK
    return _IN_TEXT.sub(rf"\1{MASK}", _IN_ADDRESS.sub(MASK, value))


def secrets_in(name: str, value: str) -> tuple[str, ...]:
    """The texts in an option's value that must not be shown anywhere."""
    inner = (match[2].strip("\"'") for match in _IN_TEXT.finditer(value))
    found = {*([value] if looks_secret(name) else []), *_IN_ADDRESS.findall(value), *inner}
    return tuple(sorted(text for text in found if text))
