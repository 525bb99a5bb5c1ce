"""The one watermark by which a query goes, of the several that its inputs may have."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.plan import QueryFacts
from headwater.plan.operators import Kind

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@dataclass(frozen=True)
class Watermarks:
    """The watermarks of a query: whose each is, and its delay."""

    delays: tuple[tuple[tuple[str, ...], int], ...]
    slowest: bool = True
    """Whether the one furthest behind counts; otherwise the one furthest ahead."""

    @classmethod
    def of(cls, facts: QueryFacts) -> Watermarks:
        found = (
            (operator.streams, operator.event_times[0].delay_ms)
            for operator in facts.operators
            if operator.kind is Kind.WATERMARK and operator.streams and operator.event_times
        )
        return cls(tuple(dict.fromkeys(found)), facts.settings.get(_POLICY, "min") != "max")

    @property
    def in_step_ms(self) -> int:
        """How far the query's watermark is behind the newest event, while all inputs are equally far."""
        lengths = [delay for _, delay in self.delays] or [0]
        return max(lengths) if self.slowest else min(lengths)

    @property
    def note(self) -> str:
        """What a query with several watermarks has to reckon with; empty for one."""
        if len(self.delays) < 2:
            return ""
        if self.slowest:
            return "the slowest watermark counts: an input that lags or is silent holds all"
        return "the fastest watermark counts: an input that is behind loses rows as late"

    def delay(self, own_ms: int) -> int:
        """The delay that decides for a key with a delay of its own."""
        return self.in_step_ms if self.delays else own_ms
