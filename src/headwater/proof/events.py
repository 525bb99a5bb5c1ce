"""What a proof reports while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.proof.certificate import Kill, Violation


@dataclass(frozen=True)
class Phase:
    """The proof does something that takes a while."""

    text: str


@dataclass(frozen=True)
class Planned:
    """The number of kills is known."""

    kills: int


@dataclass(frozen=True)
class Killed:
    """A run was killed, or a point was not reached."""

    kill: Kill


@dataclass(frozen=True)
class Violated:
    """A violation was found."""

    violation: Violation


ProofEvent = Phase | Planned | Killed | Violated
EmitProof = Callable[[ProofEvent], None]
