"""Everything that observes a run: its history, its health, its control socket, its metrics, and the user's outputs.

A run without observers does the same work. Each has its own thread and a bounded queue, so none can slow a query.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headwater.control import registry
from headwater.control.server import ControlServer
from headwater.errors import Problem, SetupError, UsageError
from headwater.errors.catalogue.programs import METRICS_ADDRESS_CONFLICT
from headwater.events import Emit, Event, Notice, RunFinished
from headwater.events.bus import EventBus
from headwater.events.status import RunView
from headwater.history.health import HealthMonitor
from headwater.history.outputs import JsonLinesFile, Webhook, function_consumer
from headwater.history.recorder import Recorder
from headwater.history.retention import HistoryLimits
from headwater.run_directory import RunDirectory
from headwater.runtime.host import Controlled, RunHost
from headwater.runtime.scope import RunOptions, guarded
from headwater.spec import PipelineSpec
from headwater.spec.alerts import Alerts
from headwater.spec.history import HistoryKeys
from headwater.values import Secret

if TYPE_CHECKING:
    from headwater.history.metrics_server import Address, MetricsServer

_TICK_SECONDS = 1.0
_OUTPUT_SECONDS = 5.0


@dataclass(frozen=True)
class Observed:
    """What is observed, and where its events go."""

    name: str
    run_dir: Path
    alerts: Alerts = field(default_factory=Alerts)
    history: HistoryKeys = field(default_factory=HistoryKeys)
    event_log: str | None = None
    webhook: str | Secret | None = None
    metrics: str | None = None
    """The address of the endpoint for Prometheus; None for no endpoint."""
    file: str = ""
    """The pipeline file, if there is one."""
    enabled: bool = True
    """Whether there is a history and a control socket."""

    @classmethod
    def of(cls, spec: PipelineSpec, options: RunOptions) -> Self:
        """A run of a pipeline."""
        return cls(
            name=spec.name,
            run_dir=spec.run_dir,
            alerts=spec.alerts,
            history=spec.history,
            event_log=spec.event_log,
            webhook=spec.webhook,
            metrics=options.metrics,
            file=spec.declared_in,
            enabled=options.observed,
        )


class Observers:
    """The observers of one run; call it with every event."""

    def __init__(self, observed: Observed, run_id: str, output: Emit | None = None) -> None:
        self._observed = observed
        self._directory = RunDirectory(observed.run_dir)
        self._steps = ExitStack()
        self.host = RunHost(observed.name, observed.run_dir, run_id)
        self.view: RunView = self.host.view
        self._bus = EventBus(self.view.apply)
        self._output = self._bus.add("output", output) if output is not None else None

    def __call__(self, event: Event, /) -> None:
        self.view.apply(event)
        self._bus(event)

    def open(self) -> None:
        """Start to observe. The run holds the lock of its directory; SetupError if an observer cannot work."""
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        observed, emit = self._observed, guarded(self)
        if not observed.enabled:
            return
        # The end is recorded last: until then, a run without a socket would look as if it had been killed.
        registry.register(self._directory.path, observed.name, self.view.run_id, observed.file)
        self._steps.callback(registry.mark_ended, self._directory.path, self.view.run_id)
        limits = HistoryLimits(observed.history.max_age, observed.history.max_size)
        recorder = Recorder(
            self._directory.history, self.view, limits, notify=lambda problem: emit(Notice.of(problem))
        )
        self._bus.add("history", recorder, lost=lambda: recorder.dropped)
        self._steps.callback(recorder.close)
        if observed.event_log is not None:
            log = JsonLinesFile(observed.event_log)
            self._bus.add("event log", log, lost=lambda: log.lost)
            self._steps.callback(log.close)
        if observed.webhook is not None:
            webhook = Webhook(observed.webhook, observed.name)
            self._bus.add("webhook", webhook, lost=lambda: webhook.outage.failures)
            self._steps.callback(webhook.close)
        health = HealthMonitor(observed.alerts, emit)

        def tick() -> None:
            health.tick()
            self._bus.report_dropped()

        self._bus.add("health", health, tick=tick, seconds=_TICK_SECONDS)
        self._control(emit)
        if observed.metrics is not None:
            server = METRICS.join(observed.metrics, self.view, self.host.is_alive)
            self._steps.callback(METRICS.leave, self.view)
            for notice in server.notices:
                emit(Notice.of(notice))

    def _control(self, emit: Emit) -> None:
        server = ControlServer(self.host, self._directory.path, self.view.run_id)
        try:
            server.start()
        except SetupError as error:
            # The run works without it.
            emit(Notice.of(error.problems[0]))
        else:
            self._steps.callback(server.close)

    def control(self, run: Controlled) -> None:
        """The queries run; other processes can control them from now on."""
        self.host.control(run)

    def call(self, function: Callable[[Event], object], name: str) -> None:
        """Call a function of the user with every later event."""
        if self._observed.enabled:
            self._bus.add(name, function_consumer(function, name))

    def start_failed(self, exit_code: int, problems: Iterable[Problem]) -> None:
        """Record that the run ended before its queries ran, and stop to observe."""
        if self._output is not None:
            # The caller reports why: it raises an error.
            self._output.drain(time.monotonic() + _OUTPUT_SECONDS)
            self._bus.remove(self._output)
        emit = guarded(self)
        for problem in problems:
            self.view.problem = problem
            emit(Notice.of(problem))
        emit(RunFinished(run_id=self.view.run_id, exit_code=exit_code, queries={}))
        self.close()

    def close(self) -> None:
        """Deliver what has happened, and stop to observe."""
        # The control socket waits for requests that wait for this.
        self.host.ended()
        self._bus.close()
        self._steps.close()
        # The last write of the history may have failed.
        self._bus.report_dropped()


class MetricsEndpoint:
    """The metrics of all runs of this process, at one address."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._active: tuple[tuple[RunView, Callable[[], bool]], ...] = ()
        self._ended: tuple[RunView, ...] = ()
        self._server: MetricsServer | None = None
        self._asked: Address | None = None

    def join(self, address: str, view: RunView, is_alive: Callable[[], bool]) -> MetricsServer:
        """Serve the metrics of a run; the first run starts the server, and decides its address.

        UsageError if a later one wants another address.
        """
        # Loaded here: it would delay the start of every run, and few serve metrics.
        from headwater.history.metrics_server import Address, MetricsServer

        wanted = Address.parse(address)
        with self._turn:
            if self._server is None:
                self._server, self._asked = MetricsServer(wanted, self._views, self._all_alive), wanted
            elif wanted not in (self._asked, self._server.address):
                params = {"used": str(self._server.address), "name": view.pipeline, "address": str(wanted)}
                raise UsageError(METRICS_ADDRESS_CONFLICT.at(None, **params))
            # The series of a new run replace those of the last one of the same pipeline.
            self._ended = tuple(each for each in self._ended if each.pipeline != view.pipeline)
            self._active = (*self._active, (view, is_alive))
            return self._server

    def _views(self) -> list[RunView]:
        return [*self._ended, *(view for view, _ in self._active)]

    def _all_alive(self) -> bool:
        return all(is_alive() for _, is_alive in self._active)

    def leave(self, view: RunView) -> None:
        """The run has ended. Its metrics stay until the last run ends, which stops the server."""
        with self._turn:
            self._active = tuple(each for each in self._active if each[0] is not view)
            self._ended = (*self._ended, view)
            if self._server is not None and not self._active:
                self._server.close()
                self._server, self._ended = None, ()


METRICS = MetricsEndpoint()
