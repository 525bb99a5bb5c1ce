"""What a rule is, and what it gets to see."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headwater.checks.finding import Finding
from headwater.plan import Graph, QueryFacts
from headwater.spec import PipelineSpec


@dataclass(frozen=True)
class Situation:
    """A pipeline before its start. Offline there are no facts; before the first start none are stored."""

    spec: PipelineSpec
    graph: Graph
    facts: Mapping[str, QueryFacts] = field(default_factory=dict)
    """What Spark would do now, by sink; empty offline."""
    stored: Mapping[str, QueryFacts] = field(default_factory=dict)
    """What the query of each existing checkpoint was at its last start."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


class Rule(ABC):
    """One thing that can be said; the docstring of a rule tells what and why."""

    @abstractmethod
    def findings(self, situation: Situation) -> Iterator[Finding]:
        """Everything this rule has to say."""
