"""A source or sink of the user's own, written for Spark's Python Data Source API."""

from headwater.connectors.python.connector import CONNECTOR, PythonSink, PythonSource

__all__ = ["CONNECTOR", "PythonSink", "PythonSource"]
