"""What a test can't mean: names that the pipeline does not have, rows that don't fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.engine.scripted.reading import BadRow
from headwater.engine.scripted.subjects import Subject
from headwater.errors import Entry, PipelineError, Place, Problem
from headwater.errors.catalogue.testing import (
    TEST_BAD_ROW,
    TEST_COLUMN_TWICE,
    TEST_FEEDS_STATIC,
    TEST_GIVES_STREAM,
    TEST_UNKNOWN_SINK,
    TEST_UNKNOWN_SOURCE,
    TEST_UNKNOWN_STATIC,
)
from headwater.values import nearest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def refuse_sinks(subject: Subject, named: Mapping[str, Place | None]) -> None:
    """Each name has to be a sink; it is told at the place where the test names it."""
    known = subject.modes
    _refuse(
        replace(_unknown(TEST_UNKNOWN_SINK, name, known, "Its sinks are"), place=place)
        for name, place in named.items()
        if name not in known
    )


def refuse_streams(subject: Subject, named: Collection[str]) -> None:
    """Each name has to be a streaming source."""
    _refuse(
        TEST_FEEDS_STATIC.at(None, name=name)
        if name in subject.statics
        else _unknown(TEST_UNKNOWN_SOURCE, name, subject.streams, "Its streams are")
        for name in named
        if name not in subject.streams
    )


def refuse_given(subject: Subject, named: Collection[str]) -> None:
    """Each name has to be a static source."""
    _refuse(
        TEST_GIVES_STREAM.at(None, name=name)
        if name in subject.streams
        else _unknown(TEST_UNKNOWN_STATIC, name, subject.statics, "Its static sources are")
        for name in named
        if name not in subject.statics
    )


def refuse_columns(sink: str, columns: Sequence[str]) -> None:
    """Rows are compared by the names of their columns."""
    twice = dict.fromkeys(name for name in columns if columns.count(name) > 1)
    _refuse(TEST_COLUMN_TWICE.at(None, name=sink, column=column) for column in twice)


def bad_row(name: str, bad: BadRow, place: Place | None, schema: StructType) -> Problem:
    """A row that does not fit its columns."""
    columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in schema.fields)
    column = f" in `{bad.column}`" if bad.column else ""
    return TEST_BAD_ROW.at(place, name=name, column=column, says=bad.says, columns=columns)


def _unknown(entry: Entry, name: str, known: Collection[str], listed: str) -> Problem:
    meant = nearest(name, known)
    names = ", ".join(f"`{each}`" for each in known) or "none"
    return entry.at(None, name=name, hint=f"Did you mean `{meant}`?" if meant else f"{listed}: {names}.")


def _refuse(problems: Iterable[Problem]) -> None:
    found = list(problems)
    if found:
        raise PipelineError.of(found)
