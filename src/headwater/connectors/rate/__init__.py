"""A clock that makes rows, for trying things out."""

from headwater.connectors.rate.options import CONNECTOR, RateSource

__all__ = ["CONNECTOR", "RateSource"]
