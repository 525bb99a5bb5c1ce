"""Made-up rows, declared in Python: the same pipeline as pipeline.yml."""

import headwater as hw

p = hw.Pipeline("rates")
p.source("ticks", hw.rate_per_batch(rows_per_batch=6, start="2026-03-01 12:00:00", step="10 seconds"))
p.table("even", sql="SELECT timestamp AS at, value FROM ticks WHERE value % 2 = 0")
p.sink("even", hw.files(path="out/even", format="json"), reads="even", trigger="once")
