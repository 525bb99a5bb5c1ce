"""Loads pipelines from YAML files and Python declarations, and validates them with the connectors' models."""
