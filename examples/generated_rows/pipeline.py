"""Generated rows, declared in Python: the same pipeline as pipeline.yml."""

import headwater as hw

p = hw.Pipeline("generated_rows")
p.source(
    "ticks",
    hw.rate_per_batch(
        rows_per_batch=6, start_timestamp="2026-03-01 12:00:00", advance_per_batch="10 seconds"
    ),
)
p.table("even", sql="SELECT timestamp AS at, value FROM ticks WHERE value % 2 = 0")
p.sink("even", hw.files(path="out/even", format="json"), reads="even", trigger="once")
