"""How a proof looks: a progress bar on a terminal, lines elsewhere, and the certificate at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from headwater.proof.certificate import Certificate, Kill
from headwater.proof.events import Killed, Phase, Planned, ProofEvent, Violated
from headwater.proof.points import BY_NAME
from headwater.values import count_of, scrub

_FEW = 3
"""Fewer batches of a query give the kills little to hit."""


class ProofView:
    """Shows nothing before the certificate."""

    def event(self, event: ProofEvent) -> None:
        """The proof has made progress."""

    def line(self, text: str) -> None:
        """Spark or the user's code has printed something."""
        sys.stderr.write(scrub(text) + "\n")


class ProofLines(ProofView):
    """A line for each event."""

    def event(self, event: ProofEvent) -> None:
        text = _text(event)
        if text:
            self.show(scrub(text))

    def show(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


class ProofBar(ProofLines):
    """The same above a progress bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("Preparing", total=None)

    def event(self, event: ProofEvent) -> None:
        match event:
            case Planned(kills=kills):
                self._progress.update(self._task, total=kills, description="Killing")
            case Killed():
                self._progress.advance(self._task)
            case Phase(text=text):
                self._progress.update(self._task, description=text)
                return
            case _:
                pass
        super().event(event)

    def show(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False)

    def line(self, text: str) -> None:
        self.show(scrub(text))


def _text(event: ProofEvent) -> str:
    match event:
        case Phase(text=text):
            return f"{text} …"
        case Planned(kills=kills):
            return f"{count_of(kills, 'kill')} planned"
        case Killed(kill=kill):
            return _kill_line(kill)
        case Violated(violation=violation):
            return f"VIOLATION {violation}"


def _kill_line(kill: Kill) -> str:
    edited = ", as a crash leaves the log" if kill.edited else ""
    reached = "" if kill.reached else "not reached: "
    return (
        f"{kill.number:>4}  {kill.point:<20} {kill.victim:<15} `{kill.sink}`  {reached}{kill.state}{edited}"
    )


@contextmanager
def view_of_proof(*, as_json: bool) -> Iterator[ProofView]:
    """The view for this output."""
    if as_json:
        yield ProofView()
        return
    console = Console()
    if not console.is_terminal:
        yield ProofLines()
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield ProofBar(progress)


def show_certificate(certificate: Certificate) -> None:
    """The certificate as text."""
    sys.stdout.write(scrub("\n".join(certificate_lines(certificate))) + "\n")


def certificate_lines(certificate: Certificate) -> Iterator[str]:
    """The lines of the certificate."""
    yield ""
    yield f"Pipeline {certificate.pipeline}: {'proven' if certificate.proven else 'NOT PROVEN'}"
    versions = ", ".join(f"{name} {version}" for name, version in certificate.versions.items())
    yield f"  versions    {versions}"
    kills, rounds = count_of(len(certificate.kills), "kill"), count_of(certificate.rounds, "round")
    hits = f"{len(certificate.hits)} reached their point"
    yield f"  kills       {kills}, {hits}, in {rounds}, seed {certificate.seed}"
    yield f"  input       {count_of(certificate.batches, 'batch', 'batches')}, {certificate.seconds:g} s"
    if certificate.batches < _FEW * len(certificate.sinks):
        yield "              few batches: kills hit the same ones again; add data, or set a limit per batch"
    for sink in certificate.sinks:
        rows = f"{count_of(sink.rows, 'row')} of the {sink.reference}"
        reads = f"read {count_of(sink.reads, 'time')} by the concurrent reader"
        compared = f"compared {count_of(sink.compared, 'time')}, {reads}"
        yield f"  sink        {sink.sink} ({sink.connector}, {sink.mode}): {rows}; {compared}"
        if sink.not_in_batch:
            rows = count_of(sink.not_in_batch, "row")
            yield f"              {rows} not in the batch result, because rows are late or windows open"
        if sink.no_batch:
            yield f"              no batch result: {sink.no_batch}"
    for each in certificate.not_proven:
        yield f"  not proven  {each.sink} ({each.connector}): {each.reason}"
    for name, (reached, tried) in certificate.of_points().items():
        state = f"{count_of(reached, 'kill')}" if reached else ("not reached" if tried else "not tried")
        yield f"  point       {name:<20} {state}: {BY_NAME[name].summary}"
    for violation in certificate.violations:
        yield f"  VIOLATION   {violation}"
    if certificate.violations:
        yield f"  to repeat   {certificate.command}"
    for place in certificate.scratch:
        yield f"  scratch     {place}"
    yield f"  badge       {certificate.badge}"
