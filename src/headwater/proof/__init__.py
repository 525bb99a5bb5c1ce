"""Proves a pipeline: kills real runs on scratch copies of its sinks, and compares what the sinks contain."""
