"""Kafka as a sink."""
