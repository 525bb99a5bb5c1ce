"""The word count from a socket, declared in Python: the same pipeline as pipeline.yml."""

import headwater as hw

p = hw.Pipeline("socket_word_count")
p.source("lines", hw.socket(host="localhost", port=9999))
p.table("words", sql="SELECT explode(split(value, ' ')) AS value FROM lines")
p.table("counts", sql="SELECT value, count(*) AS count FROM words GROUP BY value")
p.sink("counts", hw.console(), reads="counts", mode="complete")
