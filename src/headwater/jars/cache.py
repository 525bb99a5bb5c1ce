"""The jars on this machine: from a given folder or the cache, else fetched; each by its checksum."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headwater.errors import Entry, EnvironmentProblem, Problem
from headwater.errors.catalogue.environment import JAR_CHANGED, JAR_NO_FOLDER, JAR_NOT_FETCHED, JAR_SENT
from headwater.jars.table import Artifact, Release
from headwater.values.processes import user_cache

# Fetching jars with the Ivy that comes with Spark: it knows the public repository and reads any other.

Fetch = Callable[[str, str, str, Path], str]
"""Fetches group, name, version into a folder; what it says is empty, or the reason of the failure."""
FetchMany = Callable[[Sequence[tuple[str, str, str]], Path], str]
"""Fetches many jars in one go; some may have come when it gives a reason."""

_SECONDS = 300
_SETTINGS = """<ivysettings>
  <settings defaultResolver="given"/>
  <resolvers><ibiblio name="given" m2compatible="true" root={root}/></resolvers>
</ivysettings>
"""
# Descriptions of modules are not read, so that only the jars themselves travel; their checksums are ours.
_MANY_SETTINGS = """<ivysettings>
  <settings defaultResolver="given"/>
  <resolvers><ibiblio name="given" m2compatible="true" usepoms="false" checksums=""{root}/></resolvers>
</ivysettings>
"""
_MANY = """<ivy-module version="2.0">
  <info organisation="headwater" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_ONE_OF_MANY = '<dependency org={} name={} rev={} transitive="false" conf="default->default"/>'
_REASONS = ("not found", "Server access error", "UnknownHost", "timed out", "refused", "FAILED DOWNLOAD")


def ivy_fetch(java: Path, ivy: Path, repository: str = "") -> Fetch:
    """A way to fetch that runs Ivy once for each jar; without a repository, from the public one."""

    def fetch(group: str, name: str, version: str, folder: Path) -> str:
        with tempfile.TemporaryDirectory(prefix="headwater-ivy-") as work:
            command = [str(java), "-jar", str(ivy), "-warn", "-cache", f"{work}/cache"]
            if repository:
                settings = Path(work, "settings.xml")
                settings.write_text(_SETTINGS.format(root=quoteattr(repository)), encoding="utf-8")
                command += ["-settings", str(settings)]
            command += ["-dependency", group, name, version, "-notransitive", "-types", "jar"]
            command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
            return _run(command)

    return fetch


def ivy_fetch_many(java: Path, ivy: Path, repository: str = "") -> FetchMany:
    """A way to fetch that runs Ivy once for many jars."""

    def fetch(wanted: Sequence[tuple[str, str, str]], folder: Path) -> str:
        with tempfile.TemporaryDirectory(prefix="headwater-ivy-") as work:
            root = f" root={quoteattr(repository)}" if repository else ""
            settings, module = Path(work, "settings.xml"), Path(work, "ivy.xml")
            settings.write_text(_MANY_SETTINGS.format(root=root), encoding="utf-8")
            lines = (_ONE_OF_MANY.format(*map(quoteattr, coordinates)) for coordinates in wanted)
            module.write_text(_MANY.format(dependencies="".join(lines)), encoding="utf-8")
            command = [str(java), "-jar", str(ivy), "-warn", "-cache", f"{work}/cache"]
            command += ["-settings", str(settings), "-ivy", str(module)]
            command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
            return _run(command)

    return fetch


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no answer within {_SECONDS} seconds"
    return "" if done.returncode == 0 else _reason(done.stdout + done.stderr)


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
    fetch_many: FetchMany | None = None
    """None: each jar is fetched by itself."""

    @classmethod
    def of(
        cls, environ: Mapping[str, str], fetch: Fetch | None = None, fetch_many: FetchMany | None = None
    ) -> JarStore:
        """The store that this machine's settings describe."""
        folder = Path(environ[FOLDER]).expanduser() if environ.get(FOLDER) else None
        if folder and not folder.is_dir():
            raise EnvironmentProblem(JAR_NO_FOLDER.at(setting=FOLDER, folder=str(folder)))
        return cls(user_cache(environ) / "jars", folder, fetch, fetch_many)

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
            reason = self._fetched(artifact, release)
            if not reason:
                path = self.cache / artifact.file_name(release)
                return Taken(path, artifact.coordinates(release), "repository")
            reasons.append(f"{artifact.coordinates(release)}: {reason}")
        raise EnvironmentProblem(self.missing(artifact, reasons))

    def take_all(self, artifacts: Sequence[Artifact]) -> tuple[Taken, ...]:
        """Every jar, those that lack fetched together; EnvironmentProblem for the first that can't be had."""
        lacking = [artifact for artifact in artifacts if not self.find(artifact)]
        if len(lacking) > 1 and self.fetch_many is not None:
            self._fetch_together(lacking, self.fetch_many)
        # What did not come with the others is tried by itself, which tells the reason.
        return tuple(self.take(artifact) for artifact in artifacts)

    def _fetch_together(self, artifacts: Sequence[Artifact], fetch: FetchMany) -> None:
        self.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=self.cache) as folder:
            wanted = [(each.group, each.name, each.releases[0].version) for each in artifacts]
            fetch(wanted, Path(folder))
            for artifact in artifacts:
                fetched = Path(folder) / artifact.file_name(artifact.releases[0])
                if fetched.is_file():
                    _refuse_changed(fetched, artifact, artifact.releases[0], JAR_SENT)
                    os.replace(fetched, self.cache / fetched.name)

    def missing(self, artifact: Artifact, reasons: Iterable[str] = ()) -> Problem:
        """What to say of a jar that is not here."""
        names = " or ".join(artifact.file_name(release) for release in artifact.releases)
        return JAR_NOT_FETCHED.at(
            coordinates=" or ".join(artifact.coordinates(release) for release in artifact.releases),
            reason="; ".join(reasons) or "it was not looked for",
            file=names,
            folder=str(self.folder or self.cache),
            setting=REPOSITORY,
        )

    def _fetched(self, artifact: Artifact, release: Release) -> str:
        """Fetch a release into the cache; the reason if that can't be."""
        if self.fetch is None:
            return "nothing is fetched here"
        self.cache.mkdir(parents=True, exist_ok=True)
        # Beside its last place, so that a file appears there whole or not at all.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=self.cache) as folder:
            reason = self.fetch(artifact.group, artifact.name, release.version, Path(folder))
            fetched = Path(folder) / artifact.file_name(release)
            if reason or not fetched.is_file():
                return reason or "the repository sent no jar"
            _refuse_changed(fetched, artifact, release, JAR_SENT)
            os.replace(fetched, self.cache / artifact.file_name(release))
        return ""


def _refuse_changed(path: Path, artifact: Artifact, release: Release, entry: Entry = JAR_CHANGED) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != release.sha256:
        raise EnvironmentProblem(
            entry.at(
                path=str(path) if entry is JAR_CHANGED else path.name,
                coordinates=artifact.coordinates(release),
                found=found[:12],
                wanted=release.sha256[:12],
            )
        )
