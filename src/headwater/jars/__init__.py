"""Jars that Spark does not bring: exact coordinates, a cache, a repository or a folder."""

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
