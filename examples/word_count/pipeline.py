"""The word count, declared in Python: the same pipeline as pipeline.yml."""

import headwater as hw

p = hw.Pipeline("word_count")
p.source("lines", hw.files(path="lines/", format="text"))
p.table("words", sql="SELECT explode(split(lower(value), ' ')) AS word FROM lines")
p.table("counts", sql="SELECT word, count(*) AS times FROM words GROUP BY word ORDER BY times DESC, word")
p.sink("counts", hw.console(), reads="counts", mode="complete")
p.sink("words", hw.files(path="out/words", format="json"), reads="words")
