"""Says once in a run, for each expectation, that rows fail it; the counts are in every event."""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors.catalogue.expectations import EXPECTATION_UNMET
from headwater.events import Event, QueryProgress, Said
from headwater.spec import PipelineSpec
from headwater.values import Otherwise

_WHAT = {
    Otherwise.WARN: "they go on",
    Otherwise.DROP: "they are dropped",
    Otherwise.FAIL: "they fail the query",
    Otherwise.QUARANTINE: "they are set aside",
}


class UnmetExpectations:
    """Passes every event on, and a warning after the first batch in which rows fail an expectation."""

    def __init__(self, spec: PipelineSpec, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._left = {
            (table.name, each.name): _WHAT[each.otherwise] for table in spec.tables for each in table.expect
        }

    def __call__(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, QueryProgress) and self._left:
            self._warn(event)

    def _warn(self, event: QueryProgress) -> None:
        for table, counts in event.table_counts.items():
            for expectation, rows in counts.failed.items():
                # Whoever takes it out says it: several queries may read the table.
                what = self._left.pop((table, expectation), None) if rows else None
                if what:
                    params = {"table": table, "expectation": expectation, "rows": rows, "what": what}
                    problem = EXPECTATION_UNMET.at(
                        None, **params, all=counts.rows, sink=event.query, batch=event.batch_id
                    )
                    self._emit(Said(text=f"{problem.sentence} {problem.remedy}"))
