"""Decodes bytes into columns: the formats of keys and values, shared by connectors."""
