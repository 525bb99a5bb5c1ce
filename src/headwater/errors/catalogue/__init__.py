"""Everything that can go wrong: a module for each area, a constant for each entry, whose name is its code."""

# Imported with the package, so that every entry has its code before anything else can use it.
from headwater.errors.catalogue.registry import AREAS, ENTRIES

__all__ = ["AREAS", "ENTRIES"]
