"""The jars on this machine: from a given folder or the cache, else fetched; each by its checksum."""

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
from xml.sax.saxutils import quoteattr

from headwater.errors import Entry, EnvironmentProblem, Problem
from headwater.errors.catalogue.environment import (
    JAR_CHECKSUM,
    JAR_DIR_NOT_FOUND,
    JAR_DOWNLOAD_CHECKSUM,
    JAR_DOWNLOAD_FAILED,
)
from headwater.values.processes import user_cache


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


def _artifacts(checksums: Mapping[str, str]) -> tuple[Artifact, ...]:
    """Jars from their checksums by coordinates; releases of one jar stand beside each other."""
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
"""The jars by the line of Spark and by what they are needed for."""
BROKER = _artifacts(_LISTED["broker"])
"""The jars of a Kafka broker for development."""


def artifacts(need: str, spark_version: str) -> tuple[Artifact, ...] | None:
    """The jars of one need for a Spark version; None where the table has none."""
    return _line(spark_version).get(need)


def package_of(need: str, spark_version: str) -> str | None:
    """The coordinates for `spark.jars.packages`; for a line that is not in the table, as for another one."""
    line = ".".join(spark_version.split(".")[:2])
    listed = next((each for each in (line, *TABLE) if need in TABLE.get(each, {})), None)
    if listed is None:
        return None
    jar = TABLE[listed][need][0]
    version = spark_version if jar.group == "org.apache.spark" else jar.releases[0].version
    return f"{jar.group}:{jar.name.replace(listed, line)}:{version}"


def needs(spark_version: str) -> tuple[str, ...]:
    """Everything that the table has for a Spark version."""
    return tuple(_line(spark_version))


def _line(spark_version: str) -> Mapping[str, tuple[Artifact, ...]]:
    return TABLE.get(".".join(spark_version.split(".")[:2]), {})


# Fetching jars with the Ivy that comes with Spark: it knows the public repository and reads any other.

Fetch = Callable[[Sequence[tuple[str, str, str]], Path], str]
"""Fetches jars (group, name, version) into a folder; says nothing, or why not all have come."""

_SECONDS = 300
# Descriptions of modules are not read, so that only the jars themselves travel; their checksums are ours.
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
    """A way to fetch that runs Ivy; without a repository, from the public one."""

    def fetch(wanted: Sequence[tuple[str, str, str]], folder: Path) -> str:
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
                return f"no answer within {_SECONDS} seconds"
        return "" if done.returncode == 0 else _reason(done.stdout + done.stderr)

    return fetch


def _reason(text: str) -> str:
    # A mirror's address may hold a password.
    shown = re.sub(r"//[^/\s]*@", "//***@", text)
    lines = [line.strip(" :\t") for line in shown.splitlines()]
    told = [line for line in lines if any(word in line for word in _REASONS)]
    return (told or [line for line in lines if line] or ["the resolver said nothing"])[0]


FOLDER = "HEADWATER_JARS"
REPOSITORY = "HEADWATER_REPOSITORY"


@dataclass(frozen=True)
class Taken:
    """A jar that is there, and where it came from: `folder`, `cache` or `repository`."""

    path: Path
    coordinates: str
    origin: str


@dataclass(frozen=True)
class JarStore:
    """Finds jars. A given folder is asked first and alone where there is no way to fetch."""

    cache: Path
    folder: Path | None = None
    fetch: Fetch | None = None
    """None: nothing is fetched, only looked for."""

    @classmethod
    def of(cls, environ: Mapping[str, str], fetch: Fetch | None = None) -> JarStore:
        """The store that this machine's settings describe."""
        folder = Path(environ[FOLDER]).expanduser() if environ.get(FOLDER) else None
        if folder and not folder.is_dir():
            raise EnvironmentProblem(JAR_DIR_NOT_FOUND.at(setting=FOLDER, folder=str(folder)))
        return cls(user_cache(environ) / "jars", folder, fetch)

    def find(self, artifact: Artifact) -> Taken | None:
        """The first release that is on this machine; EnvironmentProblem for a wrong file."""
        for release in artifact.releases:
            for origin, place in (("folder", self.folder), ("cache", self.cache)):
                path = place / artifact.file_name(release) if place else None
                if path and path.is_file():
                    _refuse_changed(path, artifact, release)
                    return Taken(path, artifact.coordinates(release), origin)
        return None

    def take(self, artifact: Artifact) -> Taken:
        """The jar, fetched if need be; EnvironmentProblem with what to put where."""
        found = self.find(artifact)
        if found:
            return found
        reasons = []
        for release in artifact.releases:
            reason = self._fetched([(artifact, release)])
            path = self.cache / artifact.file_name(release)
            if path.is_file():
                return Taken(path, artifact.coordinates(release), "repository")
            reasons.append(f"{artifact.coordinates(release)}: {reason or 'the repository sent no jar'}")
        raise EnvironmentProblem(self.missing(artifact, reasons))

    def take_all(self, artifacts: Sequence[Artifact]) -> tuple[Taken, ...]:
        """Every jar, those that lack fetched together; EnvironmentProblem for the first that can't be had."""
        lacking = [(artifact, artifact.releases[0]) for artifact in artifacts if not self.find(artifact)]
        if len(lacking) > 1:
            self._fetched(lacking)
        # What did not come with the others is tried by itself, which tells the reason.
        return tuple(self.take(artifact) for artifact in artifacts)

    def missing(self, artifact: Artifact, reasons: Iterable[str] = ()) -> Problem:
        """What to say of a jar that is not here."""
        return JAR_DOWNLOAD_FAILED.at(
            coordinates=" or ".join(artifact.coordinates(release) for release in artifact.releases),
            reason="; ".join(reasons) or "it was not looked for",
            file=" or ".join(artifact.file_name(release) for release in artifact.releases),
            folder=str(self.folder or self.cache),
            setting=REPOSITORY,
        )

    def _fetched(self, wanted: Sequence[tuple[Artifact, Release]]) -> str:
        """Fetch releases into the cache; the reason where one has not come."""
        if self.fetch is None:
            return "nothing is fetched here"
        self.cache.mkdir(parents=True, exist_ok=True)
        # Beside its last place, so that a file appears there whole or not at all.
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
        raise EnvironmentProblem(
            entry.at(
                path=str(path) if entry is JAR_CHECKSUM else path.name,
                coordinates=artifact.coordinates(release),
                found=found[:12],
                wanted=release.sha256[:12],
            )
        )
