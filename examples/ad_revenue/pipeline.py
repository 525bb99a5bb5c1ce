"""Ad revenue, declared in Python: the same pipeline as pipeline.yml."""

from alerts import alerts

import headwater as hw

p = hw.Pipeline("ad_revenue")
p.source(
    "impressions",
    hw.files(path="impressions/", format="json", schema="ad_id string, shown_at timestamp, cost double"),
    watermark=("shown_at", "5 minutes"),
)
p.source(
    "ads",
    hw.files(path="ads/", format="csv", header=True, schema={"ad_id": "string", "campaign": "string"}),
    static=True,
)
p.table("priced", sql="SELECT i.*, a.campaign FROM impressions i JOIN ads a USING (ad_id)")
p.table(
    "revenue",
    sql="""\
SELECT window.start AS begins, campaign, sum(cost) AS revenue, count(*) AS impressions
FROM priced
GROUP BY window(shown_at, '10 minutes'), campaign""",
)
p.table("alerts", python=alerts)
p.sink("revenue", hw.files(path="out/revenue", format="json"), reads="revenue")
p.sink("alerts", hw.files(path="out/alerts", format="json"), reads="alerts")
