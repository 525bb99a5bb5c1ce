"""Hot readings to an outbox, declared in Python: the same pipeline as pipeline.yml."""

from outbox import Outbox

import headwater as hw

p = hw.Pipeline("custom_sink")
p.source(
    "readings",
    hw.files(
        path="readings/",
        format="json",
        schema="sensor string, celsius double",
        max_files_per_batch=1,
    ),
)
p.table("hot", sql="SELECT sensor, celsius FROM readings WHERE celsius >= 30")
p.sink("hot", hw.foreach(object=Outbox), reads="hot")
