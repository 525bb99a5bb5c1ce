"""Tables of a Spark catalog."""

from headwater.connectors.catalog.options import CONNECTOR, CatalogSource

__all__ = ["CONNECTOR", "CatalogSource"]
