"""Bytes to columns: the formats of keys and values, shared by connectors that carry bytes."""
