"""What can be said about a table of a Spark catalog."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from headwater.spec import Connector, SourceOptions, SourceSide

_PART = r"(?:`(?:[^`]|``)+`|[^`.\s]+)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*")
_QUALIFIED = re.compile(rf"{_PART}(?:\.{_PART})+")


class CatalogSource(SourceOptions):
    """A table that a Spark catalog knows: what is added to it, or with `static: true` what it holds."""

    also_called = {"name": "table", "toTable": "table"}

    table: str = Field(description="The table with its database, and its catalog if it is another.")

    @field_validator("table")
    @classmethod
    def _qualified(cls, name: str) -> str:
        name = name.strip()
        if not _NAME.fullmatch(name):
            raise ValueError(f"`{name}` does not name a table; write database.table, such as shop.orders")
        if not _QUALIFIED.fullmatch(name):
            # Alone it could also mean a source or table of this pipeline, which Spark would find first.
            raise ValueError(f"`{name}` says no database; write default.{name}")
        return name


def _places(options: CatalogSource) -> tuple[str, ...]:
    return (options.table,)


CONNECTOR = Connector(
    name="catalog",
    summary="A table of a Spark catalog.",
    spark="headwater.connectors.catalog.spark",
    source=SourceSide(options=CatalogSource, replayable=True, places=_places),
)
