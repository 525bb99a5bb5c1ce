"""Reads the areas of the catalogue once and gives each entry the name of its constant as its code."""

from importlib import import_module
from pkgutil import iter_modules

from headwater.errors import catalogue
from headwater.errors.problems import Entry

AREAS = {
    area.name: import_module(f"{catalogue.__name__}.{area.name}")
    for area in iter_modules(catalogue.__path__)
    if f"{catalogue.__name__}.{area.name}" != __name__
}
"""The modules by name."""
ENTRIES = {
    name: value.named(name)
    for module in AREAS.values()
    for name, value in vars(module).items()
    if isinstance(value, Entry)
}
"""Every entry by its constant."""
