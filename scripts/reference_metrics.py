"""The page of the metrics: names, types, labels and meanings."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.history.metrics import FAMILIES, Family
from scripts.markdown import table, text

INTRODUCTION = """\
# Metrics

This page lists every metric that `headwater run --metrics` serves to Prometheus. See
[Export metrics](../operate/metrics.md).

Every metric of a query has the labels `pipeline` and `query`. Counters start at 0 with each run. Metrics of the last
batch appear after the first batch. Times are in seconds; timestamps are in seconds since 1970.
"""


def metrics_page() -> Iterator[str]:
    yield from (*INTRODUCTION.splitlines(), "")
    rows = (
        (_names(family), family.kind, ", ".join(f"`{label}`" for label in family.labels), text(family.help))
        for family in FAMILIES
    )
    yield from table(("metric", "type", "labels", "description"), rows)


def _names(family: Family) -> str:
    return ", ".join(f"`{name}`" for name in family.series)
