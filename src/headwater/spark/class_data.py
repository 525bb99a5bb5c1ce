"""The archive of Spark's classes: a JVM that maps it does not read and verify each class again.

Java calls this class data sharing. An archive fits one Java and one class path; Java ignores any other. This
module finds the archive and says how to use it; `headwater.api.class_data` creates it. It imports no PySpark.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.spark.java import Java
from headwater.values.processes import user_cache

SWITCH = "HEADWATER_CLASS_DATA"
OFF = ("off", "no", "false", "0")
EXTRA_CLASS_PATH = "spark.driver.extraClassPath"
DIST_CLASS_PATH = "SPARK_DIST_CLASSPATH"
# What Spark's launcher reads for the class path, besides Spark's own directory.
_DIRECTORIES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
# With these the user creates or chooses an archive.
_ARCHIVE_OPTIONS = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare", "SharedClassListFile")
_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
PART = ".part-"
"""In the names of what is not complete yet."""
_MOST_ATTEMPTS = 3
_UNUSED_SECONDS = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Attempts:
    """The number of attempts that did not finish, and why the last one failed."""

    number: int = 0
    reason: str = ""

    @property
    def exhausted(self) -> bool:
        return bool(self.reason) or self.number >= _MOST_ATTEMPTS


@dataclass(frozen=True)
class ClassData:
    """The place of the archive for one Java and one class path; the archive may not exist yet."""

    folder: Path
    key: str
    has_base: bool = True
    """Whether this Java ships an archive of its own classes, on which ours builds; otherwise, we create both."""

    @property
    def archive(self) -> Path:
        return self.folder / f"{self.key}.jsa"

    @property
    def base(self) -> Path:
        return self.folder / f"{self.key}-base.jsa"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.key}.lock"

    @property
    def files(self) -> tuple[Path, ...]:
        """The archives that a start needs, the lower one first."""
        return (self.archive,) if self.has_base else (self.base, self.archive)

    @property
    def is_complete(self) -> bool:
        """Whether every archive exists in the size in which it was written; Java itself compares the rest."""
        try:
            written = json.loads(self._sizes.read_text(encoding="utf-8"))
            return all(written[file.name] == file.stat().st_size for file in self.files)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def complete(self) -> None:
        """Note the sizes of the archives; until then no JVM uses them."""
        sizes = {file.name: file.stat().st_size for file in self.files}
        part = self._sizes.with_suffix(f"{PART}{os.getpid()}")
        part.write_text(json.dumps(sizes), encoding="utf-8")
        os.replace(part, self._sizes)
        self._attempts.unlink(missing_ok=True)

    def use(self) -> str:
        """The value of Java's option, for an archive that is about to be used."""
        # The time of the last use says which archives may be deleted.
        with suppress(OSError):
            os.utime(self._sizes)
        return os.pathsep.join(map(str, self.files))

    @contextmanager
    def writing(self, *, wait: bool) -> Iterator[bool]:
        """The right to create the archive, which only one process has; False if another has it."""
        with self.lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True

    @property
    def is_being_made(self) -> bool:
        if not self.lock.exists():
            return False
        with suppress(OSError), self.writing(wait=False) as alone:
            return not alone
        return False

    def attempts(self) -> Attempts:
        try:
            noted = json.loads(self._attempts.read_text(encoding="utf-8"))
            return Attempts(int(noted["number"]), str(noted["reason"]))
        except (OSError, ValueError, KeyError, TypeError):
            return Attempts()

    def note(self, attempts: Attempts) -> None:
        text = json.dumps({"number": attempts.number, "reason": attempts.reason})
        self._attempts.write_text(text, encoding="utf-8")

    def delete_unused(self) -> None:
        """Delete what no process has used for a month: archives of former versions, and parts of killed attempts."""
        long_ago = time.time() - _UNUSED_SECONDS
        times = {file: at for file in self.folder.iterdir() if (at := _modified(file)) is not None}
        used: dict[str, float] = {}
        for file, at in times.items():
            used[_key_of(file)] = max(at, used.get(_key_of(file), at))
        for file, at in times.items():
            is_part, key = file.name.startswith(PART), _key_of(file)
            if key == self.key or (at if is_part else used[key]) >= long_ago:
                continue
            if is_part:
                shutil.rmtree(file, ignore_errors=True)
            else:
                with suppress(OSError):
                    file.unlink()

    @property
    def _sizes(self) -> Path:
        return self.folder / f"{self.key}.json"

    @property
    def _attempts(self) -> Path:
        return self.folder / f"{self.key}.attempts"


def _key_of(file: Path) -> str:
    """The key in the name of a file or directory among the archives; a key has neither `.` nor `-`."""
    return file.name.removeprefix(PART).partition(".")[0].partition("-")[0]


def _modified(file: Path) -> float | None:
    try:
        return file.stat().st_mtime
    except OSError:
        return None


@dataclass(frozen=True)
class Missing:
    """An archive that a JVM of this process could have used, and the class path that the user added."""

    archive: ClassData
    extra_class_path: str


_missing: list[Missing] = []


def note_missing(archive: ClassData, settings: Mapping[str, str]) -> None:
    """Note that a JVM started without this archive."""
    _missing[:] = [Missing(archive, settings.get(EXTRA_CLASS_PATH, ""))]


def missing() -> Missing | None:
    """The archive without which the last JVM of this process started, if it did."""
    return _missing[0] if _missing else None


def find(
    java: Java, spark_home: Path, settings: Mapping[str, str], environ: Mapping[str, str]
) -> ClassData | None:
    """The archive for a JVM that starts like this; None if there can be none, or the user wants none.

    `environ` is the environment of the JVM, with Headwater's own jar in its class path.
    """
    if environ.get(SWITCH, "").lower() in OFF or _has_own(settings, environ):
        return None
    conf = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    directories = [conf, *(Path(environ[name]) for name in _DIRECTORIES if environ.get(name))]
    given = [settings.get(EXTRA_CLASS_PATH, ""), environ.get(DIST_CLASS_PATH, "")]
    entries = [Path(entry) for text in given for entry in text.split(os.pathsep) if entry]
    # Java creates no archive for a class path with a directory that contains anything.
    if any(_has_files(entry) for entry in (*directories, *entries)):
        return None
    try:
        jars = sorted((spark_home / "jars").iterdir())
    except OSError:
        return None
    own = java.runtime / "lib" / "server"
    facts = [
        (java.runtime / "release").read_text(errors="replace") if (java.runtime / "release").exists() else "",
        *map(str, (java.executable, *directories)),
        *given,
        *_stats((*sorted(own.glob("*")), *jars, *entries)),
    ]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    folder = _folder(environ)
    return ClassData(folder, key, (own / "classes.jsa").exists()) if folder else None


def _folder(environ: Mapping[str, str]) -> Path | None:
    """Where archives are stored; None if the user has no home, or Java would read the path as several."""
    try:
        folder = user_cache(environ) / "class-data"
    except RuntimeError:
        return None
    return None if os.pathsep in str(folder) else folder


def _has_own(settings: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    given = [environ.get(name, "") for name in (*_OPTION_VARIABLES, "PYSPARK_SUBMIT_ARGS")]
    given += [settings.get(key, "") for key in _JAVA_OPTIONS]
    return any(word in text for text in given for word in _ARCHIVE_OPTIONS)


def _has_files(path: Path) -> bool:
    try:
        return path.is_dir() and any(path.iterdir())
    except OSError:
        return True


def _stats(files: Iterable[Path]) -> Iterable[str]:
    for file in files:
        with suppress(OSError):
            found = file.stat()
            # Whole seconds, as Java compares them: images of containers store no fractions.
            yield f"{file}:{found.st_size}:{int(found.st_mtime)}"
