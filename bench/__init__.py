"""Benchmarks of Headwater against hand-written Spark and other engines: `python -m bench`."""
