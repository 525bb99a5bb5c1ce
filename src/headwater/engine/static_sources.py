"""The static sources of a run: their cached or pinned data, and whether a failure concerns their files."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headwater.connectors import StaticRows, Unreadable, source_side
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.connectors import STATIC_FILE_OVERWRITTEN, STATIC_UNREADABLE
from headwater.run_directory import RunDirectory
from headwater.spark.errors import causes_of, condition_of, sentence_of
from headwater.spec import SourceSpec
from headwater.spec.paths import as_glob, escaped, matcher, plain_path
from headwater.values import scrub

_MISREAD = "FAILED_READ_FILE"
_GONE = "FAILED_READ_FILE.FILE_NOT_EXIST"
_NAMED = re.compile(r"while reading file (.+?)\. File does not exist")


@dataclass(frozen=True)
class CachedRows:
    """The rows of a static source, cached by Spark from their first use to the end of the run."""

    frame: DataFrame

    def start(self) -> None:
        self.frame.persist()

    def again(self, query: str) -> None:
        """No effect: the rows stay as they were read."""

    def outdated(self, query: str) -> bool:
        return False

    def news(self) -> str | None:
        return None

    def trouble(self, query: str) -> str | None:
        return None

    def close(self) -> None:
        # A JVM that has exited caches nothing.
        with suppress(Py4JError, OSError):
            self.frame.unpersist()


@dataclass(frozen=True)
class StaticSources:
    """Every static source that the sinks of a run need."""

    root: Path
    """The project root."""
    directory: RunDirectory
    """Where files are pinned."""
    sources: list[tuple[SourceSpec, StaticRows]] = field(default_factory=list)

    def add(self, source: SourceSpec, *rows: StaticRows) -> None:
        self.sources.extend((source, each) for each in rows)

    def start(self) -> None:
        """Read the current data; PipelineError if that fails."""
        for source, rows in self.sources:
            try:
                rows.start()
            except Unreadable as error:
                raise PipelineError(_unreadable(source, str(error))) from error
            except (PySparkException, Py4JError) as error:
                raise PipelineError(_unreadable(source, sentence_of(error))) from error

    def close(self) -> None:
        for _, rows in self.sources:
            rows.close()

    def again(self, query: str, error: Exception) -> bool:
        """Use the current data for a query's batch that failed because a file disappeared or changed."""
        causes = list(causes_of(error))
        lost = [
            plain_path(unquote(found[1]))
            for cause in causes
            if condition_of(cause) == _GONE and (found := _NAMED.search(str(cause)))
        ]
        misread = any(_MISREAD in str(cause) for cause in causes)
        hit = [
            rows
            for source, rows in self.sources
            if any(map(self._is_below(source), lost)) or (misread and rows.outdated(query))
        ]
        for rows in hit:
            rows.again(query)
        return bool(hit)

    def news(self) -> list[Problem]:
        """Files that were overwritten during the run, once per source."""
        told = [(source, rows.news()) for source, rows in self.sources]
        return [
            STATIC_FILE_OVERWRITTEN.at(source.position, name=source.name, file=file)
            for source, file in told
            if file
        ]

    def problem(self, query: str) -> Problem | None:
        """What keeps a query from reading a static source, if that is why it failed."""
        for source, rows in self.sources:
            says = rows.trouble(query)
            if says:
                return _unreadable(source, says)
        return None

    def _is_below(self, source: SourceSpec) -> Callable[[str], bool]:
        places = source_side(source.connector).places(source.options)
        patterns = [as_glob(plain_path(place), self.root) for place in places]
        patterns.append(escaped(str(self.directory.source(source.name).snapshots)))
        fits = [matcher(pattern) for pattern in patterns]
        return lambda file: any(each.fullmatch(file) for each in fits)


def _unreadable(source: SourceSpec, says: str) -> Problem:
    return STATIC_UNREADABLE.at(source.position, name=source.name, says=scrub(says))
