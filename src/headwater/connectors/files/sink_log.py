"""The names in the log of Spark's file sink."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_COMPACT = ".compact"


def newest(names: Iterable[str]) -> int | None:
    """The newest batch in the log."""
    stems = [name.removesuffix(_COMPACT) for name in names]
    return max((int(stem) for stem in stems if stem.isdigit()), default=None)


def removable(names: Collection[str], batch: int) -> list[str]:
    """The files whose removal takes the newest batch out of the log, and nothing else with it.

    Every tenth file or so is `N.compact` and repeats all the batches before it. It can go only while what it
    repeats is still there: every file since the last compact one, or since the beginning.
    """
    if (newest(names) or 0) > batch:
        return []
    if str(batch) in names:
        return [str(batch)]
    if f"{batch}{_COMPACT}" not in names:
        return []
    return [f"{batch}{_COMPACT}"] if _is_whole(names, batch - 1) else []


def _is_whole(names: Collection[str], newest: int) -> bool:
    """Whether the batches up to this one can be read without a later file."""
    while newest >= 0 and f"{newest}{_COMPACT}" not in names:
        if str(newest) not in names:
            return False
        newest -= 1
    return True
