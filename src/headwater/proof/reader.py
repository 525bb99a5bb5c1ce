"""A concurrent reader: what any reader of the sinks can see while runs are killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from headwater.proof.contents import Contents, Difference, Rows, Seen
from headwater.spec import Mode

_PAUSE_SECONDS, _SHARE = 0.3, 4


@dataclass
class Watched:
    """What was seen of one sink since its last reset: of all batches, only the rows of the newest are kept."""

    batch: int = -1
    rows: Rows = field(default_factory=Counter)
    had_rows: bool = False
    """The table had rows after an earlier batch."""


Found = Callable[[str, str, Difference | None], None]
"""Receives the sink, what is wrong, and the rows."""


class Reader:
    """Reads all sinks again and again on a thread of its own.

    In append mode, a reader never sees a row that the expected result does not have, or has fewer times. For one
    batch, all readers see the same rows: never a part. In complete mode, the table is never empty after it has had
    rows.
    """

    def __init__(self, contents: Contents, expected: Mapping[str, Rows], found: Found) -> None:
        self._contents = contents
        self._expected = expected
        self._found = found
        self._watched = {name: Watched() for name in expected}
        self.reads = dict.fromkeys(expected, 0)
        self._turn = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="headwater prove reader", daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Read during the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._end.set()
            self._thread.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No read during the block, and what was seen before it is forgotten: the sinks are emptied."""
        with self._turn:
            yield
            self._watched = {name: Watched() for name in self._watched}

    def look(self) -> None:
        """Read every sink once, now."""
        with self._turn:
            for name in self._watched:
                seen = self._contents.try_read(name)
                if seen is not None:
                    self.reads[name] += 1
                    self._check(name, seen)

    def _loop(self) -> None:
        pause = _PAUSE_SECONDS
        while not self._end.wait(pause):
            looked = time.monotonic()
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - without its reads, less is proven: report any error
                self._found("", f"the concurrent reader failed: {type(error).__name__}: {error}", None)
                return
            # The runs need the cores more than the reader.
            pause = max(_PAUSE_SECONDS, _SHARE * (time.monotonic() - looked))

    def _check(self, name: str, seen: Seen) -> None:
        sink, watched = self._contents.sinks[name], self._watched[name]
        if sink.mode is Mode.APPEND:
            difference = Difference.of(self._expected[name], seen.rows, partial=True)
            if difference:
                self._found(name, "a reader saw rows that the result does not have", difference)
        if seen.batch is None or seen.batch < watched.batch:
            return
        if seen.batch > watched.batch:
            had_rows = watched.had_rows or bool(watched.rows)
            watched = self._watched[name] = Watched(seen.batch, seen.rows, had_rows)
        difference = Difference.of(watched.rows, seen.rows)
        if difference:
            self._found(name, f"two readers saw different rows after batch {seen.batch}", difference)
        if sink.mode is Mode.COMPLETE and watched.had_rows and not seen.rows:
            self._found(name, f"a reader saw an empty table after batch {seen.batch}", None)
