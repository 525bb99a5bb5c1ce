"""Order totals, declared in Python: the same pipeline as pipeline.yml."""

from out import write

import headwater as hw

p = hw.Pipeline("orders")
p.source(
    "orders",
    hw.files(
        path="orders/",
        format="json",
        schema="order_id int, customer string, amount double",
        max_files_per_batch=1,
    ),
)
p.table(
    "totals",
    sql="SELECT customer, count(*) AS orders, sum(amount) AS total FROM orders GROUP BY customer",
)
p.sink("totals", hw.foreach_batch(function=write), reads="totals", mode="update")
