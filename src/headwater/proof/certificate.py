"""The certificate of a proof: what was run, killed and compared, as plain data."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from headwater.proof.contents import Difference
from headwater.proof.points import POINTS, PlannedKill
from headwater.proof.scratch import Unproven
from headwater.proof.strikes import KillResult
from headwater.values import count_of
from headwater.values.secrets import masked

VERSION = 1


class Reference(StrEnum):
    """What the contents of a sink are compared with."""

    BATCH = "batch result"
    STREAM = "undisturbed run"


@dataclass(frozen=True)
class SinkProof:
    """One sink with a proof."""

    sink: str
    connector: str
    mode: str
    reference: Reference
    rows: int
    """Rows of the reference."""
    compared: int = 0
    """How often the whole contents were compared with it."""
    reads: int = 0
    """How often the concurrent reader has read it."""
    not_in_batch: int = 0
    """Rows of an undisturbed run that the batch result does not have: late rows, or windows that stay open."""
    no_batch: str = ""
    """Why the reference is not the batch result, if a batch run could not write it."""


@dataclass(frozen=True)
class Kill:
    """One kill, and what it hit."""

    number: int
    point: str
    sink: str
    victim: str
    reached: bool
    batch: int | None
    state: str
    edited: bool

    @classmethod
    def of(cls, planned: PlannedKill, result: KillResult) -> Kill:
        return cls(
            planned.number,
            planned.point.name,
            planned.sink,
            planned.victim.value,
            result.reached,
            result.batch,
            result.state,
            result.edited,
        )


@dataclass(frozen=True)
class Violation:
    """A difference from the reference, or a run that did not recover."""

    sink: str
    """Empty for the whole pipeline."""
    what: str
    after_kill: int
    """The newest kill before it; 0 for none."""
    difference: Difference | None = None

    def __str__(self) -> str:
        where = f"`{self.sink}`: " if self.sink else ""
        after = f"after kill {self.after_kill}" if self.after_kill else "without a kill"
        rows = f": {self.difference}" if self.difference else ""
        return f"{where}{self.what} ({after}){rows}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "message": str(self)}


@dataclass(frozen=True)
class Certificate:
    """The result of a proof."""

    pipeline: str
    file: str
    command: str
    """The command that repeats it, with the seed."""
    versions: Mapping[str, str]
    started_at: str
    seconds: float
    seed: int
    kills_requested: int
    batches: int
    """Batches of an undisturbed run, over all queries."""
    rounds: int
    """How often the input was processed from the beginning under kills."""
    sinks: tuple[SinkProof, ...]
    not_proven: tuple[Unproven, ...]
    kills: tuple[Kill, ...]
    violations: tuple[Violation, ...]
    points: tuple[str, ...]
    """The points that were requested."""
    scratch: tuple[str, ...] = ()
    """The directories and tables of the scratch copies, if they were kept or could not be removed."""

    @property
    def proven(self) -> bool:
        """No violation, and at least one kill reached its point."""
        return not self.violations and bool(self.hits)

    @property
    def exit_code(self) -> int:
        return 0 if self.proven else 1

    @property
    def hits(self) -> tuple[Kill, ...]:
        """The kills that reached their points."""
        return tuple(kill for kill in self.kills if kill.reached)

    def of_points(self) -> dict[str, tuple[int, int]]:
        """For each point, the kills that reached it, and all tries."""
        return {
            name: (
                sum(kill.point == name for kill in self.hits),
                sum(kill.point == name for kill in self.kills),
            )
            for name in self.points
        }

    @property
    def badge(self) -> str:
        """A line for a README."""
        color = "brightgreen" if self.proven else "red"
        kills, violations = count_of(len(self.hits), "kill"), count_of(len(self.violations), "violation")
        text = f"{kills}, {violations}"
        url = f"https://img.shields.io/badge/headwater_prove-{quote(text)}-{color}"
        return f"![headwater prove: {text}]({url})"

    def to_json(self) -> dict[str, Any]:
        points = {
            name: {"reached": reached, "tried": tried} for name, (reached, tried) in self.of_points().items()
        }
        return {
            "version": VERSION,
            "proven": self.proven,
            **{
                name: getattr(self, name)
                for name in (
                    "pipeline",
                    "file",
                    "command",
                    "started_at",
                    "seconds",
                    "seed",
                    "kills_requested",
                    "batches",
                    "rounds",
                )
            },
            "versions": dict(self.versions),
            "sinks": [asdict(each) for each in self.sinks],
            "not_proven": [asdict(each) for each in self.not_proven],
            "points": points,
            "kills": [asdict(each) for each in self.kills],
            "violations": [each.to_json() for each in self.violations],
            "badge": self.badge,
            "scratch": list(self.scratch),
        }


def command_of(
    file: str,
    kills: int,
    seed: int,
    points: tuple[str, ...],
    inputs: Mapping[str, tuple[str, ...]],
    *,
    timeout: str = "",
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> str:
    """The command that repeats a proof. Secrets in settings are masked."""
    words = ["headwater", "prove", file, "--kills", str(kills), "--seed", str(seed)]
    if len(points) < len(POINTS):
        words += [word for point in points for word in ("--point", point)]
    words += [
        word for name, paths in inputs.items() for path in paths for word in ("--input", f"{name}={path}")
    ]
    words += ["--timeout", timeout] if timeout else []
    words += ["--master", master] if master else []
    words += [
        word for key, value in (conf or {}).items() for word in ("--conf", f"{key}={masked(key, value)}")
    ]
    return shlex.join(words)
