"""Events and problems from their JSON form, as histories and other processes deliver them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from headwater.errors import Entry, Problem
from headwater.events import kinds
from headwater.events.kinds import Event, QueryDetails, QueryStatus, QuerySummary, RunFinished, RunStarted
from headwater.values import Position

_KINDS: Mapping[str, type[Event]] = {
    each.kind: each for each in vars(kinds).values() if isinstance(each, type) and issubclass(each, Event)
}


def problem_from_json(found: Mapping[str, Any]) -> Problem:
    """A problem with its code, texts and position; the parameters of the original are part of its texts."""
    texts = {"message": str(found.get("message", "")), "hint": str(found.get("hint", ""))}
    entry = Entry("{message}", "{hint}", retryable=bool(found.get("retryable")), code=str(found.get("code")))
    place = found.get("file") and Position(found["file"], found.get("line") or 1, found.get("column") or 1)
    return Problem(entry, texts, place or None)


def event_from_json(found: Mapping[str, Any]) -> Event | None:
    """An event; None if this version of Headwater does not know its kind."""
    kind = _KINDS.get(str(found.get("event")))
    if kind is None:
        return None
    if kind is kinds.Found:
        return kinds.Found(
            at=found["at"], finding={k: v for k, v in found.items() if k not in ("event", "at")}
        )
    values = {each.name: _value(kind, each.name, found) for each in fields(kind) if each.name in found}
    try:
        return kind(**values)
    except TypeError:
        # A field is missing that this version requires.
        return None


def _value(kind: type[Event], name: str, found: Mapping[str, Any]) -> Any:
    value = found[name]
    match name:
        case "problem":
            return problem_from_json(value) if value else None
        case "status":
            return QueryStatus(value)
        case "details" if kind is RunStarted:
            return {query: _details(each) for query, each in value.items()}
        case "details":
            return _details(value) if value else None
        case "queries" if kind is RunFinished:
            return {query: _summary(each) for query, each in value.items()}
        case _:
            return tuple(value) if isinstance(value, list) else value


def _details(found: Mapping[str, Any]) -> QueryDetails:
    known = {each.name for each in fields(QueryDetails)}
    values: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in found.items() if name in known
    }
    return QueryDetails(**values)


def _summary(found: Mapping[str, Any]) -> QuerySummary:
    values: dict[str, Any] = {each.name: found.get(each.name) for each in fields(QuerySummary)}
    values["idle_inputs"] = tuple(values["idle_inputs"] or ())
    values["problem"] = problem_from_json(values["problem"]) if values["problem"] else None
    return QuerySummary(**values)
