"""The keys that can be written at one place, and which of them is meant by another word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from headwater.spec import ConnectorOptions, Declared
from headwater.values import nearest

_ELSEWHERE = re.compile(r"^(?:kafka|properties|cloudFiles)\.(?=.)")
"""What Spark, Flink and Auto Loader put before the names of a connector's own settings."""
_OPTION = re.compile(r"\w+\.\w|[a-z][A-Z]")
"""How options of Spark are written, and no key is."""


@dataclass(frozen=True)
class KnownKeys:
    """Keys, with the names under which people know them from elsewhere."""

    keys: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Keys by such names, which are plain; keys at the top of the file may be among them."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def meant(self, word: str) -> str | None:
        """The key that a word most likely stands for; None where none is likely."""
        found = self._named(word)
        return found if found in self.keys else nearest(word, self.keys) if found is None else None

    def hint(self, word: str) -> str:
        """What to write in place of an unknown key."""
        meant = self.meant(word)
        if meant:
            return f"Did you mean `{meant}`?"
        top = self._named(word)
        if top:
            return f"Did you mean `{top}`, at the top of the file?"
        listed = ", ".join(sorted(self.keys))
        if "options" in self.keys and _OPTION.search(word):
            return f"Write an option of Spark under `options`. The keys are: {listed}."
        return f"It takes: {listed}."

    def _named(self, word: str) -> str | None:
        for spelling in (plain(word), plain(_ELSEWHERE.sub("", word))):
            found = self.names.get(spelling) or next(
                (key for key in self.keys if plain(key) == spelling), None
            )
            if found:
                return found
        return None


def known_keys(*models: type[BaseModel]) -> KnownKeys:
    """The keys a user can write where these models stand together."""
    keys = tuple(key for model in models for key in _keys(model))
    bases = [base for model in models for base in reversed(model.__mro__)]
    names = {plain(name): key for base in bases for name, key in vars(base).get("also_called", {}).items()}
    return KnownKeys(keys, names)


def plain(word: str) -> str:
    """A word without case and punctuation: `maxFileAge` and `max_file_age` are one."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _keys(model: type[BaseModel]) -> Iterator[str]:
    hidden = model.where_only if issubclass(model, Declared) else frozenset[str]()
    if issubclass(model, ConnectorOptions) and not model.takes_options:
        hidden |= {"options"}
    return (field.alias or name for name, field in model.model_fields.items() if name not in hidden)
