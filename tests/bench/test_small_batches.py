"""The benchmark of small batches: every workload has its query by hand."""

from __future__ import annotations

from bench import small_batches


def test_every_workload_has_its_query_by_hand() -> None:
    jobs = [workload.job.partition(":")[2] for workload in small_batches.WORKLOADS]
    assert jobs == ["stateless_parquet", "aggregation", "stream_stream_join", "deduplication"]
    assert [job for job in jobs if not callable(getattr(small_batches, job, None))] == []
