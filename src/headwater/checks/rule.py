"""What a rule is, and what it gets to see."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headwater.checks.finding import Finding
from headwater.plan import Graph, QueryFacts
from headwater.spec import PipelineSpec


@dataclass(frozen=True)
class Reached:
    """How far the query of an existing checkpoint has read, or was about to."""

    checkpoint: str
    """Its folder."""
    offsets: tuple[Any, ...]
    """The newest offset of each source, as Spark stores it; None for a source without one."""
    batch: int = -1
    """The newest batch that was planned."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What froze at the first start, as far as Spark wrote it down."""


@dataclass(frozen=True)
class Situation:
    """A pipeline before its start. Offline there are no facts; before the first start none are stored."""

    spec: PipelineSpec
    graph: Graph
    facts: Mapping[str, QueryFacts] = field(default_factory=dict)
    """What Spark would do now, by sink; empty offline."""
    stored: Mapping[str, QueryFacts] = field(default_factory=dict)
    """What the query of each existing checkpoint was at its last start."""
    reached: Mapping[str, Reached] = field(default_factory=dict)
    """How far each existing checkpoint has come."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    whole: bool = True
    """Whether the spec holds everything that was declared, and Spark has nothing against any of it."""

    @property
    def sound(self) -> bool:
        """Whether nothing stands against the pipeline as a whole so far."""
        return self.whole and not self.graph.problems


class Rule(ABC):
    """One thing that can be said; the docstring of a rule tells what and why."""

    asks_parts: ClassVar[bool] = False
    """It looks at each declared thing (or its facts) by itself, so that what is wrong elsewhere, or even
    left out for being wrong, does not mislead it."""

    @abstractmethod
    def findings(self, situation: Situation) -> Iterator[Finding]:
        """Everything this rule has to say."""
