"""Reads the areas of the catalogue once, so that every entry has its code before anything else can use it."""

from importlib import import_module
from pkgutil import iter_modules

from headwater.errors import catalogue
from headwater.errors.problems import name_entries

AREAS = {
    area.name: import_module(f"{catalogue.__name__}.{area.name}")
    for area in iter_modules(catalogue.__path__)
    if f"{catalogue.__name__}.{area.name}" != __name__
}
"""The modules by name."""
ENTRIES = {name: entry for module in AREAS.values() for name, entry in name_entries(vars(module)).items()}
"""Every entry by its constant."""
