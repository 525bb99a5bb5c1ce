"""The python connector: user classes for Spark's Python Data Source API."""

from headwater.connectors.python.connector import CONNECTOR, PythonSink, PythonSource

__all__ = ["CONNECTOR", "PythonSink", "PythonSource"]
