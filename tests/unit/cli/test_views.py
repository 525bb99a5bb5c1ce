"""The live table on a terminal of ordinary width."""

from __future__ import annotations

import io

from rich.console import Console

from headwater.cli.views import LiveView
from headwater.events import QueryProgress

PROGRESS = {
    "batchId": 1570,
    "numInputRows": 5530,
    "processedRowsPerSecond": 1412.3,
    "batchDuration": 11290,
    "eventTime": {"watermark": "2026-01-01T09:31:39.123Z"},
}


def test_eighty_columns_hold_every_number_and_cut_only_long_names() -> None:
    view = LiveView()
    for query in ("priced", "revenue_of_all_our_shops"):
        view.show(QueryProgress(query=query, rows_out=5500, progress=PROGRESS))
    output = io.StringIO()
    Console(file=output, width=80).print(view._table())
    batch = "running 1570 5,530 1,412 5,500 487 2026-01-01 09:31:39 11.29 s"
    assert [" ".join(line.split()) for line in output.getvalue().splitlines()] == [
        "query status batch in in/s out out/s watermark time",
        f"priced {batch}",
        f"revenue_of_al… {batch}",
    ]
