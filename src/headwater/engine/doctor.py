"""Checks of the machine before anything runs: Python, packages, Java, memory, the run directory.

Nothing is started and nothing heavy is imported, so the checks take a fraction of a second.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from headwater.errors import Problem, SetupError
from headwater.errors.catalogue import environment
from headwater.jars import Artifact, JarStore, Taken, artifacts, needs
from headwater.spark.class_data import OFF, SWITCH
from headwater.spark.java import find_java
from headwater.spark.launch import find_class_data
from headwater.spark.local_files import JAR
from headwater.values import count_of

# Properties of this machine: memory, cores, and the kind of file system of a directory.

_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


def read_memory(proc: Path = _PROC, cgroup: Path = _CGROUP) -> tuple[int, int | None]:
    """Total and free memory in bytes, within the limits of a container; free is None if unknown."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = _free_memory(proc)
    limit = _number(cgroup / "memory.max")
    if limit is None or limit >= total:
        return total, free
    used = _number(cgroup / "memory.current") or 0
    # Used memory includes file cache that Linux can reclaim, so this is the cautious answer.
    room = max(limit - used, 0)
    return limit, room if free is None else min(free, room)


def count_cores() -> int:
    """The cores that this process can use."""
    # macOS has no such limit.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def file_system_of(path: Path) -> str:
    """The kind of file system (`ext4`, `nfs4`, …) of an existing path; empty if unknown."""
    best = ("", "")
    for point, kind in _mounts():
        # If two mounts have the same mount point, the later one hides the earlier one.
        if path.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def _free_memory(proc: Path) -> int | None:
    try:
        text = (proc / "meminfo").read_text()
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # `max` means no limit
        return None


def _mounts() -> list[tuple[str, str]]:
    """Mount points with their kind."""
    try:
        return read_mounts((_PROC / "self/mounts").read_text(errors="replace"))
    except OSError:
        asked = subprocess.run(["mount"], capture_output=True, text=True, check=False)
        return re.findall(r"^.* on (/.*) \((\w+)", asked.stdout, re.MULTILINE)


def read_mounts(text: str) -> list[tuple[str, str]]:
    """The mount points and kinds in Linux's mount table; special characters are octal numbers there."""
    fields = [line.split() for line in text.splitlines()]
    octal = re.compile(r"\\([0-7]{3})")
    return [(octal.sub(lambda at: chr(int(at[1], 8)), line[1]), line[2]) for line in fields if len(line) > 2]


OLDEST_PYTHON = (3, 11)
# Lowest supported and first unsupported version; the same as in the package's own requirements.
CLASS_DATA = "class data"
SUPPORTED: dict[str, tuple[str, str | None]] = {
    "pyspark": ("4.1", "4.3"),
    "pandas": ("2.2", "3"),
    "pyarrow": ("15", None),
    "protobuf": ("6.31", None),
}
WANTED_MEMORY = 2 * 1024**3
NETWORK_FILE_SYSTEMS = frozenset(
    {
        # `9p` and `drvfs` are the Windows disks in WSL.
        "9p", "drvfs",
        "afpfs", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.grpcfuse",
        "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "lustre", "nfs", "nfs4", "ocfs2",
        "smb3", "smbfs", "webdav",
    }
)  # fmt: skip

Status = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Check:
    """What was checked, the result, and the fix; `code` is the one of the catalogue."""

    name: str
    status: Status
    message: str
    hint: str = ""
    code: str = ""


def examine(folder: Path, environ: Mapping[str, str] = os.environ) -> list[Check]:
    """Every check, in the best order for fixing problems; `folder` is the run directory."""
    system = check_platform(platform.system(), platform.release())
    if system.status == "error":
        return [system]
    return [
        system,
        check_python(sys.version_info[:3]),
        check_spark(environ),
        check_java(environ),
        check_class_data(environ),
        check_own_jar(),
        *(check_package(name) for name in SUPPORTED if name != "pyspark"),
        check_memory(*read_memory()),
        check_cores(count_cores()),
        check_folder(folder),
    ]


def check_platform(system: str, release: str) -> Check:
    if system not in ("Linux", "Darwin"):
        return _bad("platform", environment.PLATFORM_UNSUPPORTED.at(platform=system or "this platform"))
    if system == "Darwin":
        return Check("platform", "ok", "macOS")
    return Check("platform", "ok", "Linux under WSL" if "microsoft" in release.lower() else "Linux")


def check_python(version: tuple[int, ...]) -> Check:
    said = ".".join(map(str, version))
    if version < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return _bad("python", environment.PYTHON_UNSUPPORTED.at(version=said, oldest=oldest))
    return Check("python", "ok", f"Python {said} ({sys.executable})")


def check_spark(environ: Mapping[str, str]) -> Check:
    """PySpark, and the Spark that it will start: its own or the one of SPARK_HOME."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return _missing("pyspark")
    package = Path(spec.origin).parent
    found = _version_in(package)
    if not _is_supported("pyspark", found):
        return _unsupported("pyspark", found)
    named = environ.get("SPARK_HOME")
    if named:
        return _check_spark_home(Path(named), found)
    if not (package / "jars").is_dir():
        problem = environment.SPARK_CLIENT_ONLY.at(path=str(package / "jars"), supported=range_of("pyspark"))
        return _bad("spark", problem)
    return Check("spark", "ok", f"PySpark {found}")


def examine_jars(environ: Mapping[str, str] = os.environ) -> list[Check]:
    """The jars that connectors may need with the installed Spark: which are on this machine, and where."""
    spark = metadata.version("pyspark")
    wanted = [(need, each) for need in needs(spark) for each in artifacts(need, spark) or ()]
    try:
        store = JarStore.of(environ)
        found = [(need, each, store.find(each)) for need, each in wanted]
    except SetupError as error:
        return [Check("jars", "error", p.message, p.hint, p.code) for p in error.problems]
    return [_jar_check(store, need, artifact, taken) for need, artifact, taken in found]


def _jar_check(store: JarStore, need: str, artifact: Artifact, taken: Taken | None) -> Check:
    if taken:
        return Check(f"jar for {need}", "ok", f"{taken.coordinates} in the {taken.origin} ({taken.path})")
    wanted = artifact.releases[0]
    places = f"{store.folder or store.cache}"
    remedy = (
        "Headwater downloads it when a pipeline first needs it. Offline, copy "
        f"{artifact.file_name(wanted)} to {places}."
    )
    return Check(f"jar for {need}", "warning", f"{artifact.coordinates(wanted)} not found", remedy)


def check_java(environ: Mapping[str, str]) -> Check:
    try:
        java = find_java(environ)
    except SetupError as error:
        first, *passed_over = error.problems
        says = " ".join([first.message, *(problem.message for problem in passed_over)])
        return Check("java", "error", says, first.hint, first.code)
    says = f"Java {java.version} from {java.origin} ({java.home})"
    if not java.passed_over:
        return Check("java", "ok", says)
    # It works, but not with the Java that the user configured: a warning, not an error.
    reasons = " ".join(problem.message for problem in java.passed_over)
    last = java.passed_over[-1]
    return Check("java", "warning", f"{says}. Skipped: {reasons}", last.hint, last.code)


def check_class_data(environ: Mapping[str, str]) -> Check:
    """The archive of Spark's classes, with which Spark starts faster; a start without it is no problem."""
    name = CLASS_DATA
    try:
        archive = find_class_data({}, environ)
    except SetupError:
        return Check(name, "ok", "No archive of Spark's classes, because no Java was found")
    if archive is None:
        return Check(name, "ok", f"No archive of Spark's classes: {no_archive_reason(environ)}")
    if archive.is_complete:
        size = sum(file.stat().st_size for file in archive.files) // 1024**2
        return Check(name, "ok", f"Archive of Spark's classes, {size} MB ({archive.archive})")
    if archive.is_being_made:
        return Check(name, "ok", "Another process is creating the archive of Spark's classes")
    attempts = archive.attempts()
    if attempts.exhausted:
        reason = attempts.reason or f"{count_of(attempts.number, 'attempt')} did not finish"
        return class_data_failed(reason, "warning")
    if reason := _not_writable(archive.folder):
        return class_data_failed(f"{archive.folder}: {reason}", "warning")
    says = "No archive of Spark's classes yet. Headwater creates it after the next command that starts Spark."
    return Check(name, "ok", says)


def class_data_failed(reason: str, status: Literal["warning", "error"]) -> Check:
    return _bad(CLASS_DATA, environment.CLASS_DATA_FAILED.at(reason=reason), status)


def no_archive_reason(environ: Mapping[str, str]) -> str:
    """Why there can be no archive on this machine."""
    value = environ.get(SWITCH, "")
    if value.lower() in OFF:
        return f"{SWITCH} is {value}"
    return "Java creates none for these options and this class path"


def check_own_jar(jar: Path = JAR) -> Check:
    """Headwater's classes for Spark, which the installation contains; a run without them is slower."""
    name = "headwater jar"
    if jar.is_file():
        return Check(name, "ok", f"Headwater's classes for Spark ({jar})")
    says = f"{jar} not found: Spark starts processes for each local file, and Headwater counts each row"
    return Check(name, "warning", says, "Install Headwater again: pip install --force-reinstall headwater")


def _nearest(folder: Path) -> Path:
    """The directory itself, or the nearest one above it that exists."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())


def _not_writable(folder: Path) -> str:
    """Why nothing can be stored there, or nothing; the directory need not exist and is not created."""
    try:
        # Trying is the only reliable answer for every file system and user.
        with tempfile.TemporaryFile(dir=_nearest(folder)):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def check_package(name: str) -> Check:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return _missing(name)
    if not _is_supported(name, found):
        return _unsupported(name, found)
    return Check(name, "ok", f"{name} {found}")


def check_memory(total: int, free: int | None) -> Check:
    """Memory in bytes; `free` is None if the system does not report it."""
    usable = total if free is None else free
    says = f"{_gigabytes(usable)} GB of {_gigabytes(total)} GB memory free"
    if usable < WANTED_MEMORY:
        problem = environment.MEMORY_LOW.at(
            free=_gigabytes(usable), total=_gigabytes(total), wanted=_gigabytes(WANTED_MEMORY)
        )
        return _bad("memory", problem, "warning")
    return Check("memory", "ok", f"{_gigabytes(total)} GB memory" if free is None else says)


def check_cores(cores: int) -> Check:
    if cores < 2:
        return _bad("cores", environment.CORES_LOW.at(cores=cores), "warning")
    return Check("cores", "ok", count_of(cores, "core"))


def check_folder(folder: Path) -> Check:
    """Whether a run could store its files there; the directory need not exist and is not created."""
    folder = folder.absolute()
    if reason := _not_writable(folder):
        return _bad("run directory", environment.RUN_DIR_UNWRITABLE.at(path=str(folder), reason=reason))
    kind = file_system_of(_nearest(folder).resolve())
    if kind in NETWORK_FILE_SYSTEMS:
        problem = environment.RUN_DIR_ON_NETWORK.at(path=str(folder), kind=kind)
        return _bad("run directory", problem, "warning")
    return Check("run directory", "ok", f"{folder} is writable")


def _check_spark_home(home: Path, pyspark: str) -> Check:
    jar = next(iter(sorted((home / "jars").glob("spark-core_*.jar"))), None)
    if jar is None:
        return _bad("spark", environment.SPARK_HOME_INVALID.at(path=str(home)))
    found = jar.stem.partition("-core_")[2].partition("-")[2]
    if found != pyspark:
        problem = environment.SPARK_HOME_MISMATCH.at(path=str(home), found=found, version=pyspark)
        return _bad("spark", problem, "warning" if found[:3] == pyspark[:3] else "error")
    return Check("spark", "ok", f"PySpark {pyspark} with the Spark of SPARK_HOME ({home})")


def _version_in(package: Path) -> str:
    # A PySpark from SPARK_HOME on PYTHONPATH was not installed, but has its version in a file.
    text = (package / "version.py").read_text(encoding="utf-8")
    match = re.search(r"__version__[^=]*=\s*['\"]([^'\"]+)", text)
    return match[1] if match else ""


def _is_supported(package: str, version: str) -> bool:
    lowest, beyond = SUPPORTED[package]
    found = _numbers(version)
    return found >= _numbers(lowest) and (beyond is None or found < _numbers(beyond))


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers: enough for these ranges, whose ends are whole releases."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def range_of(package: str) -> str:
    lowest, beyond = SUPPORTED[package]
    return f">={lowest}" if beyond is None else f">={lowest},<{beyond}"


def _missing(package: str) -> Check:
    name = "spark" if package == "pyspark" else package
    return _bad(name, environment.PACKAGE_MISSING.at(package=package, supported=range_of(package)))


def _unsupported(package: str, version: str) -> Check:
    name = "spark" if package == "pyspark" else package
    problem = environment.PACKAGE_UNSUPPORTED.at(
        package=package, version=version, supported=range_of(package)
    )
    return _bad(name, problem)


def _bad(name: str, problem: Problem, status: Status = "error") -> Check:
    return Check(name, status, problem.message, problem.hint, problem.code)


def _gigabytes(size: int) -> str:
    return f"{size / 1024**3:.1f}"
