"""One table, written to two destinations, declared in Python: the same pipeline as pipeline.yml."""

from out import write

import headwater as hw

p = hw.Pipeline("two_destinations")
p.source(
    "orders",
    hw.files(
        path="orders/",
        format="json",
        schema="order_id int, customer string, amount double",
        max_files_per_batch=1,
    ),
)
p.table("large", sql="SELECT order_id, customer, amount FROM orders WHERE amount >= 10")
p.sink("large", hw.foreach_batch(function=write), reads="large")
