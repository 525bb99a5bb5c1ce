"""Prices from a class, declared in Python: the same pipeline as pipeline.yml."""

from feeds import Tickers

import headwater as hw

p = hw.Pipeline("custom_source")
p.source("prices", hw.python(class_=Tickers, options={"last": 12}))
p.table("highest", sql="SELECT share, max(price) AS price, count(*) AS prices FROM prices GROUP BY share")
p.sink("highest", hw.console(), reads="highest", mode="complete")
