"""The jars on this machine: from a given directory or the cache, or downloaded; all verified by checksum."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import Entry, Problem, SetupError
from headwater.errors.catalogue.environment import (
    JAR_CHECKSUM,
    JAR_DIR_NOT_FOUND,
    JAR_DOWNLOAD_CHECKSUM,
    JAR_DOWNLOAD_FAILED,
)
from headwater.values.processes import user_cache


@dataclass(frozen=True)
class Release:
    """A tested version, and the SHA-256 of its jar."""

    version: str
    sha256: str


@dataclass(frozen=True)
class Artifact:
    """A jar of a Maven repository. Releases are in order of preference: the first available one is used."""

    group: str
    name: str
    releases: tuple[Release, ...]

    def coordinates(self, release: Release) -> str:
        return f"{self.group}:{self.name}:{release.version}"

    def file_name(self, release: Release) -> str:
        return f"{self.name}-{release.version}.jar"


def _artifacts(checksums: Mapping[str, str]) -> tuple[Artifact, ...]:
    """Jars from a mapping of coordinates to checksums; releases of one jar are adjacent."""
    releases: dict[tuple[str, str], list[Release]] = {}
    for coordinates, checksum in checksums.items():
        group, name, version = coordinates.split(":")
        releases.setdefault((group, name), []).append(Release(version, checksum))
    return tuple(Artifact(group, name, tuple(found)) for (group, name), found in releases.items())


_LISTED = tomllib.loads(Path(__file__).with_name("jars.toml").read_text(encoding="utf-8"))
TABLE: Mapping[str, Mapping[str, tuple[Artifact, ...]]] = {
    line: {need: _artifacts(jars) for need, jars in needed.items()}
    for line, needed in _LISTED["spark"].items()
}
"""The jars by Spark version and by the feature that needs them."""
BROKER = _artifacts(_LISTED["broker"])
"""The jars of a Kafka broker for development."""


def artifacts(need: str, spark_version: str) -> tuple[Artifact, ...] | None:
    """The jars of one need for a Spark version; None if the table has none."""
    return _line(spark_version).get(need)


def package_of(need: str, spark_version: str) -> str | None:
    """The coordinates for `spark.jars.packages`; for an unlisted Spark version, those of another version."""
    line = ".".join(spark_version.split(".")[:2])
    listed = next((each for each in (line, *TABLE) if need in TABLE.get(each, {})), None)
    if listed is None:
        return None
    jar = TABLE[listed][need][0]
    version = spark_version if jar.group == "org.apache.spark" else jar.releases[0].version
    return f"{jar.group}:{jar.name.replace(listed, line)}:{version}"


def needs(spark_version: str) -> tuple[str, ...]:
    """All jars in the table for a Spark version."""
    return tuple(_line(spark_version))


def _line(spark_version: str) -> Mapping[str, tuple[Artifact, ...]]:
    return TABLE.get(".".join(spark_version.split(".")[:2]), {})


# Downloads jars with the Ivy that ships with Spark, from the public repository or any other.

Fetch = Callable[[Sequence[tuple[str, str, str]], Path], str]
"""Downloads jars (group, name, version) to a directory; returns the reason if not all arrived, or nothing."""

_SECONDS = 300
# Module descriptors are not read, so that only the jars are downloaded; Headwater verifies their checksums.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="given"/>
  <resolvers><ibiblio name="given" m2compatible="true" usepoms="false" checksums=""{root}/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="headwater" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_DEPENDENCY = '<dependency org={} name={} rev={} transitive="false" conf="default->default"/>'
_REASONS = ("not found", "Server access error", "UnknownHost", "timed out", "refused", "FAILED DOWNLOAD")


def ivy_fetch(java: Path, ivy: Path, repository: str = "") -> Fetch:
    """A download function that runs Ivy; without a repository, it uses the public one."""

    def fetch(wanted: Sequence[tuple[str, str, str]], folder: Path) -> str:
        # Loaded here, because it loads HTTP clients: a start without a download need not wait for that.
        from xml.sax.saxutils import quoteattr

        with tempfile.TemporaryDirectory(prefix="headwater-ivy-") as work:
            root = f" root={quoteattr(repository)}" if repository else ""
            settings, module = Path(work, "settings.xml"), Path(work, "ivy.xml")
            settings.write_text(_SETTINGS.format(root=root), encoding="utf-8")
            lines = (_DEPENDENCY.format(*map(quoteattr, coordinates)) for coordinates in wanted)
            module.write_text(_MODULE.format(dependencies="".join(lines)), encoding="utf-8")
            command = [str(java), "-jar", str(ivy), "-warn", "-cache", f"{work}/cache"]
            command += ["-settings", str(settings), "-ivy", str(module)]
            command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                return f"no response within {_SECONDS} s"
        return "" if done.returncode == 0 else _reason(done.stdout + done.stderr)

    return fetch


def _reason(text: str) -> str:
    # The URL of a mirror can contain a password.
    shown = re.sub(r"//[^/\s]*@", "//***@", text)
    lines = [line.strip(" :\t") for line in shown.splitlines()]
    told = [line for line in lines if any(word in line for word in _REASONS)]
    return (told or [line for line in lines if line] or ["the resolver reported no reason"])[0]


FOLDER = "HEADWATER_JARS"
REPOSITORY = "HEADWATER_REPOSITORY"


@dataclass(frozen=True)
class Taken:
    """An available jar, and its origin: `folder`, `cache` or `repository`."""

    path: Path
    coordinates: str
    origin: str


@dataclass(frozen=True)
class JarStore:
    """Finds jars: in the given directory, in the cache, or by downloading them."""

    cache: Path
    folder: Path | None = None
    fetch: Fetch | None = None
    """None: jars are only searched for, never downloaded."""

    @classmethod
    def of(cls, environ: Mapping[str, str], fetch: Fetch | None = None) -> JarStore:
        """The store for the settings of this machine."""
        folder = Path(environ[FOLDER]).expanduser() if environ.get(FOLDER) else None
        if folder and not folder.is_dir():
            raise SetupError(JAR_DIR_NOT_FOUND.at(setting=FOLDER, folder=str(folder)))
        return cls(user_cache(environ) / "jars", folder, fetch)

    def find(self, artifact: Artifact) -> Taken | None:
        """The first release on this machine; raises SetupError if the checksum of a file is wrong."""
        for release in artifact.releases:
            for origin, place in (("folder", self.folder), ("cache", self.cache)):
                path = place / artifact.file_name(release) if place else None
                if path and path.is_file():
                    _refuse_changed(path, artifact, release)
                    return Taken(path, artifact.coordinates(release), origin)
        return None

    def take(self, artifact: Artifact) -> Taken:
        """The jar, downloaded if needed; raises SetupError with instructions."""
        found = self.find(artifact)
        if found:
            return found
        reasons = []
        for release in artifact.releases:
            reason = self._fetched([(artifact, release)])
            path = self.cache / artifact.file_name(release)
            if path.is_file():
                return Taken(path, artifact.coordinates(release), "repository")
            reasons.append(f"{artifact.coordinates(release)}: {reason or 'the repository returned no jar'}")
        raise SetupError(self.missing(artifact, reasons))

    def take_all(self, artifacts: Sequence[Artifact]) -> tuple[Taken, ...]:
        """All jars, with missing ones downloaded together; raises SetupError for the first unavailable one."""
        lacking = [(artifact, artifact.releases[0]) for artifact in artifacts if not self.find(artifact)]
        if len(lacking) > 1:
            self._fetched(lacking)
        # A jar that did not arrive is downloaded separately to get the reason.
        return tuple(self.take(artifact) for artifact in artifacts)

    def missing(self, artifact: Artifact, reasons: Iterable[str] = ()) -> Problem:
        """The problem of a missing jar."""
        return JAR_DOWNLOAD_FAILED.at(
            coordinates=" or ".join(artifact.coordinates(release) for release in artifact.releases),
            reason="; ".join(reasons) or "downloads are disabled",
            file=" or ".join(artifact.file_name(release) for release in artifact.releases),
            folder=str(self.folder or self.cache),
            setting=REPOSITORY,
        )

    def _fetched(self, wanted: Sequence[tuple[Artifact, Release]]) -> str:
        """Download releases to the cache; returns the reason if one did not arrive."""
        if self.fetch is None:
            return "downloads are disabled"
        self.cache.mkdir(parents=True, exist_ok=True)
        # Next to its final path, so that the file appears there complete or not at all.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=self.cache) as folder:
            coordinates = [(artifact.group, artifact.name, release.version) for artifact, release in wanted]
            reason = self.fetch(coordinates, Path(folder))
            for artifact, release in wanted:
                fetched = Path(folder) / artifact.file_name(release)
                if fetched.is_file():
                    _refuse_changed(fetched, artifact, release, JAR_DOWNLOAD_CHECKSUM)
                    os.replace(fetched, self.cache / fetched.name)
        return reason


def _refuse_changed(path: Path, artifact: Artifact, release: Release, entry: Entry = JAR_CHECKSUM) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != release.sha256:
        raise SetupError(
            entry.at(
                path=str(path) if entry is JAR_CHECKSUM else path.name,
                coordinates=artifact.coordinates(release),
                found=found[:12],
                wanted=release.sha256[:12],
            )
        )
