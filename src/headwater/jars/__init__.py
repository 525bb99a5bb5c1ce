"""Jars that Spark does not bring: exact coordinates, a cache, a repository or a folder."""

from headwater.jars.broker import BROKER
from headwater.jars.cache import JarStore, Taken
from headwater.jars.table import TABLE, Artifact, Release, artifacts, needs

__all__ = ["BROKER", "TABLE", "Artifact", "JarStore", "Release", "Taken", "artifacts", "needs"]
