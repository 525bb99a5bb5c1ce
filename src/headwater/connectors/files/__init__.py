"""Files as source and sink."""

from headwater.connectors.files.connector import CONNECTOR
from headwater.connectors.files.options import FilesSink, FilesSource

__all__ = ["CONNECTOR", "FilesSink", "FilesSource"]
