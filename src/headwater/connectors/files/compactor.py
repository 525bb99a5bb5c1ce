"""Rewrites small files in a thread of its own, while the query goes on."""

from __future__ import annotations

import threading
import traceback
from dataclasses import replace
from typing import Any
from uuid import uuid4

from headwater.connectors.files.compaction import Rewritten
from headwater.connectors.files.rewriting import Rewriter
from headwater.errors import CheckpointError, Problem
from headwater.errors.catalogue.files_sink import COMPACTION_FAILED
from headwater.values import scrub

_INTERRUPT_SECONDS = 5.0


class Compactor:
    """Stages new files for one sink; it neither moves them to their places nor touches the log.

    Its Spark jobs run in a fair pool of their own, so they take turns with the queries. What goes wrong once
    would go wrong again: after a failure nothing is begun until the next start.
    """

    def __init__(self, sink: str, rewriter: Rewriter, patience: float) -> None:
        self._sink = sink
        self._rewriter = rewriter
        self._patience = patience
        self._job_group = f"headwater compaction {uuid4().hex}"
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()
        self._done: list[Rewritten] = []
        self._problem: Problem | None = None
        self._failed = False

    @property
    def is_idle(self) -> bool:
        """Whether something new can be begun."""
        return self._thread is None and not self._failed

    @property
    def has_finished(self) -> bool:
        """Whether there is something to take."""
        return self._thread is not None and not self._thread.is_alive()

    def begin(self, groups: list[tuple[str, ...]]) -> None:
        """Rewrite each group of files; nothing happens when there is none."""
        if groups:
            self._done, self._problem = [], None
            self._thread = threading.Thread(
                target=self._work, args=(groups,), daemon=True, name=f"headwater compaction {self._sink}"
            )
            self._thread.start()

    def take(self) -> list[Rewritten]:
        """What was rewritten since `begin`; an error if that failed."""
        self._thread = None
        if self._problem:
            self._failed = True
            raise CheckpointError(self._problem)
        return self._done

    def end(self, *, patient: bool) -> None:
        """Wait for what was begun, but not longer than a stop waits for a batch; give it up then."""
        if self._thread is None:
            return
        self._thread.join(self._patience if patient else 0)
        if self._thread.is_alive():
            self._cancelled.set()
            if patient:
                self._rewriter.spark.sparkContext.cancelJobGroup(self._job_group)
            self._thread.join(_INTERRUPT_SECONDS)
            self._thread, self._failed = None, True

    def _work(self, groups: list[tuple[str, ...]]) -> None:
        context: Any = self._rewriter.spark.sparkContext
        try:
            self._rewriter.see_jars()
            context.setLocalProperty("spark.scheduler.pool", f"{self._sink} compaction")
            context.setJobGroup(self._job_group, f"{self._sink}: small files are rewritten")
            for group in groups:
                for rewritten in self._rewriter.rewrite(group):
                    self._done.append(rewritten)
                if self._cancelled.is_set():
                    return
        except Exception as error:  # noqa: BLE001 - Spark's errors are many kinds: all are told by `take`
            says = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            problem = COMPACTION_FAILED.at(None, sink=self._sink, says=scrub(says))
            self._problem = replace(problem, detail=scrub(traceback.format_exc()))
