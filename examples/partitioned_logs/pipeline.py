"""The partitioned logs, declared in Python: the same pipeline as pipeline.yml."""

import headwater as hw

p = hw.Pipeline("partitioned_logs")
p.source(
    "requests",
    hw.files(
        path="logs/",
        format="json",
        schema="day date, host string, path string, status int",
        max_files_per_batch=2,
    ),
)
p.table("errors", sql="SELECT day, host, path FROM requests WHERE status >= 500")
p.sink("errors", hw.files(path="out/errors", format="json"), reads="errors")
