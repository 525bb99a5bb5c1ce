"""Whoever is told what happens in a run: sees no secret, and hurts nothing by failing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headwater.events import Event, QueryProgress, Said
from headwater.values import scrub, scrub_within

_LOG = logging.getLogger("headwater")


def guarded(emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """The observer as the run calls it.

    One that raises must not end the watch: the run would hang with its locks held.
    """

    def call(event: Event) -> None:
        try:
            emit(without_secrets(event))
        except Exception:  # noqa: BLE001 - an observer is foreign code: whatever it raises is noted
            _LOG.exception("an observer of the run failed at %s", event.kind)

    return call


def without_secrets(event: Event) -> Event:
    """The event as others may see it; Spark's progress and texts of foreign code may hold anything."""
    match event:
        case Said(text=text):
            return replace(event, text=scrub(text))
        case QueryProgress(progress=progress):
            return replace(event, progress=shown(progress))
        case _:
            return event


def shown(progress: Mapping[str, Any]) -> Mapping[str, Any]:
    """Spark's progress without secrets; the names of its fields stay, since others look them up."""
    return {name: scrub_within(each) for name, each in progress.items()}
