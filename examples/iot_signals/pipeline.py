"""Device signals, declared in Python: the same pipeline as pipeline.yml."""

import headwater as hw

p = hw.Pipeline("iot_signals")
p.source(
    "signals",
    hw.files(
        path="signals/",
        format="json",
        schema="device string, device_type string, signal double, at timestamp",
        max_files_per_batch=1,
    ),
)
p.table("strong", sql="SELECT device FROM signals WHERE signal > 10")
p.table(
    "per_type",
    sql="""
    SELECT device_type, count(*) AS updates, avg(signal) AS signal
    FROM signals GROUP BY device_type
    """,
)
p.sink("strong", hw.files(path="out/strong", format="json"), reads="strong")
p.sink("per_type", hw.console(), reads="per_type", mode="complete")
