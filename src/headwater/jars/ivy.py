"""Fetching jars with the Ivy that comes with Spark: it knows the public repository and reads any other."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

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
