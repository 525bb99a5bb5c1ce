"""The catalogue of problems: one module per area, one constant per entry; the constant's name is the code."""

# Imported with the package, so that every entry has its code before anything else can use it.
from headwater.errors.catalogue.registry import AREAS, ENTRIES

__all__ = ["AREAS", "ENTRIES"]
