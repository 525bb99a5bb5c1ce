"""One jar of the table: its coordinates and the releases that fit, each with its checksum."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """A version that was tried, and the SHA-256 of its jar."""

    version: str
    sha256: str


@dataclass(frozen=True)
class Artifact:
    """A jar of a Maven repository. The releases stand in order: the first that can be had is taken."""

    group: str
    name: str
    releases: tuple[Release, ...]

    def coordinates(self, release: Release) -> str:
        return f"{self.group}:{self.name}:{release.version}"

    def file_name(self, release: Release) -> str:
        return f"{self.name}-{release.version}.jar"
