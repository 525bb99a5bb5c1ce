"""Consumers of events: a file with JSON lines, a webhook, a function. A failure never reaches the run."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING

from headwater.errors import Entry, Problem
from headwater.errors.catalogue.running import (
    EVENT_FUNCTION_FAILED,
    EVENT_LOG_UNWRITABLE,
    WEBHOOK_FAILED,
    WEBHOOK_REDIRECTED,
)
from headwater.events import Event, EventsDropped, QueryIdle
from headwater.history.store import as_text
from headwater.values import Secret, scrub
from headwater.values.secrets import hide

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

_LOG = logging.getLogger("headwater")
WEBHOOK_KINDS = frozenset(
    {
        "alert",
        "notice",
        "query_restarted",
        "query_restarting",
        "query_terminated",
        "run_finished",
        "run_started",
    }
)
"""The kinds of events that a webhook receives by default."""


class Outage:
    """Counts the failures of a consumer, and logs only the first one until it works again."""

    def __init__(self) -> None:
        self.failures = 0
        self._over = True

    def failed(self, problem: Problem) -> None:
        """Something could not be written or sent."""
        self.failures += 1
        if self._over:
            _LOG.warning("%s", scrub(str(problem)))
        self._over = False

    def over(self) -> None:
        """It works again, so the next failure is logged."""
        self._over = True


class RepeatedIdle:
    """Recognizes the polls of a query after the first one that found no data: they say nothing new."""

    def __init__(self) -> None:
        self._idle: set[str] = set()

    def __call__(self, event: Event) -> bool:
        """Whether the event only repeats that a query is idle; call it with every event."""
        query = getattr(event, "query", "")
        if not isinstance(event, QueryIdle):
            self._idle.discard(query)
            return False
        if query in self._idle:
            return True
        self._idle.add(query)
        return False


class JsonLinesFile:
    """Appends each event to a file, as one JSON object per line.

    If the file is moved or deleted, as by logrotate, the next event creates it again.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.outage = Outage()
        self.lost = 0
        """How many events are not in the file because it could not be written."""
        self._is_repeated = RepeatedIdle()
        self._file: IO[str] | None = None

    def __call__(self, event: Event) -> None:
        if self._is_repeated(event):
            return
        line = as_text(event.to_json())
        try:
            file = self._current()
            file.write(line + "\n")
            file.flush()
        except OSError as error:
            self.close()
            # The report of a loss is not counted: it would be a loss to report.
            self.lost += not isinstance(event, EventsDropped)
            reason = error.strerror or str(error)
            self.outage.failed(EVENT_LOG_UNWRITABLE.at(None, file=str(self.path), reason=reason))
        else:
            self.outage.over()

    def _current(self) -> IO[str]:
        if self._file and not self._is_moved(self._file):
            return self._file
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a", encoding="utf-8")
        return self._file

    def _is_moved(self, file: IO[str]) -> bool:
        try:
            return not os.path.samestat(os.fstat(file.fileno()), self.path.stat())
        except FileNotFoundError:
            return True

    def close(self) -> None:
        """Close the file; the next event opens it again."""
        file, self._file = self._file, None
        if file:
            # A line that could not be written is still in the buffer, and closing tries again.
            try:
                file.close()
            except OSError:
                _LOG.debug("could not write the rest of %s", self.path)


@dataclass(frozen=True)
class _Failure:
    """Why an event could not be sent; never with a part of the URL."""

    reason: str
    retryable: bool = False
    entry: Entry = WEBHOOK_FAILED


class Webhook:
    """Sends events to a URL as JSON, one POST each; the URL never appears in logs.

    A failure that a retry can fix is retried after 1, 2 … seconds. It only delays the events of this consumer.
    """

    def __init__(
        self,
        url: str | Secret,
        pipeline: str,
        kinds: frozenset[str] = WEBHOOK_KINDS,
        *,
        attempts: int = 3,
        backoff: float = 1.0,
        timeout: float = 5.0,
    ) -> None:
        self._url = url.reveal() if isinstance(url, Secret) else url
        hide(self._url)
        self._pipeline = pipeline
        self._kinds = kinds
        self._attempts, self._backoff, self._timeout = attempts, backoff, timeout
        self._closed = threading.Event()
        self.outage = Outage()

    def __call__(self, event: Event) -> None:
        if event.kind not in self._kinds:
            return
        body = as_text({"pipeline": self._pipeline, **event.to_json()}).encode()
        failure = self._send(body)
        if failure:
            self.outage.failed(failure.entry.at(None, kind=event.kind, reason=failure.reason))
        else:
            self.outage.over()

    def _send(self, body: bytes) -> _Failure | None:
        """Send with retries; the last failure if none succeeds."""
        failure = self._post(body)
        for attempt in range(1, self._attempts):
            if not failure or not failure.retryable or self._closed.wait(self._backoff * 2 ** (attempt - 1)):
                break
            failure = self._post(body)
        return failure

    def _post(self, body: bytes) -> _Failure | None:
        # Loaded here: it would delay the start of every run, and few have a webhook.
        import urllib.error
        import urllib.request

        if not self._url.startswith(("http://", "https://")):
            return _Failure("the URL does not start with https://")
        headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "headwater"}
        try:
            request = urllib.request.Request(self._url, body, headers, method="POST")
            with _opener().open(request, timeout=self._timeout):
                return None
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"HTTP status {error.code}"
            if 300 <= error.code < 400:
                return _Failure(reason, entry=WEBHOOK_REDIRECTED)
            return _Failure(reason, retryable=error.code >= 500 or error.code in (408, 429))
        except OSError as error:
            return _Failure(self._reason(error), retryable=True)
        except (ValueError, OverflowError, HTTPException) as error:
            # The text of the error may contain a part of the URL.
            return _Failure(f"the URL or the response is malformed ({type(error).__name__})")

    def _reason(self, error: OSError) -> str:
        from urllib.error import URLError

        cause = error.reason if isinstance(error, URLError) else error
        text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return str(text).replace(self._url, "the URL")

    def close(self) -> None:
        """Do not wait for further retries."""
        self._closed.set()


@cache
def _opener() -> OpenerDirector:
    """Opens URLs, and raises HTTPError for a redirect."""
    import urllib.request

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        """Follows none; the one of urllib turns some into GET."""

        def redirect_request(self, *request: object) -> None:
            return None

    return urllib.request.build_opener(NoRedirects)


def function_consumer(function: Callable[[Event], object], name: str) -> Callable[[Event], None]:
    """Calls a user's function with each event; `name` is how the pipeline names it."""
    outage, is_repeated = Outage(), RepeatedIdle()

    def consume(event: Event) -> None:
        if is_repeated(event):
            return
        try:
            function(event)
        except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises must not end the consumer
            said = f"{type(error).__name__}: {error}"
            outage.failed(EVENT_FUNCTION_FAILED.at(None, function=name, kind=event.kind, error=said))
        else:
            outage.over()

    return consume
