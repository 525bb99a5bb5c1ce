"""Scripted streams: what Spark needs to play the steps of a test, batch by batch."""
