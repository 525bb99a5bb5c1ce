"""Lines of text from a socket."""

from headwater.connectors.socket.options import CONNECTOR, SocketSource

__all__ = ["CONNECTOR", "SocketSource"]
