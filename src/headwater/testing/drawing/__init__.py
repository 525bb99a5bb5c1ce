"""Pictures of tests: event time against batches, as SVG."""
