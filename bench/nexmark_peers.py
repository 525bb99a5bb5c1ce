"""The Nexmark queries from Kafka, with other engines next to Headwater and Spark; see `bench/peers/nexmark.py`."""

from bench.peers.nexmark import BENCHMARK

__all__ = ["BENCHMARK"]
