"""Files as source and sink."""

from headwater.connectors.files.options import CONNECTOR, FilesSink, FilesSource

__all__ = ["CONNECTOR", "FilesSink", "FilesSource"]
