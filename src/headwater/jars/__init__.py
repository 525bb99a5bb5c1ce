"""Jars that do not ship with Spark: exact coordinates, a cache, a repository or a directory."""

from headwater.jars.cache import (
    BROKER,
    TABLE,
    Artifact,
    JarStore,
    Release,
    Taken,
    artifacts,
    needs,
    package_of,
)

__all__ = ["BROKER", "TABLE", "Artifact", "JarStore", "Release", "Taken", "artifacts", "needs", "package_of"]
