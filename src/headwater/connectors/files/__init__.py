"""The files connector."""

from headwater.connectors.files.connector import CONNECTOR
from headwater.connectors.files.options import FilesSink, FilesSource

__all__ = ["CONNECTOR", "FilesSink", "FilesSource"]
