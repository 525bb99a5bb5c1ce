"""The Nexmark benchmark: an online auction as one stream of people, auctions and bids, and the queries over it."""

from bench.nexmark.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
