"""Spark's log file: its setup and rotation, and the line that explains why the JVM did not start."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from headwater.errors import SetupError
from headwater.errors.catalogue import environment

LOG = "spark.log"
LARGEST = 10_000_000
KEPT = 3

_SETUP = "log4j2.properties"
_PROPERTIES = """\
# Written by Headwater at each start. Standard error is appended to spark.log next to this file.
status = error
rootLogger.level = warn
rootLogger.appenderRef.log.ref = log
appender.log.type = Console
appender.log.name = log
appender.log.target = SYSTEM_ERR
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %-5p %c: %m%n%ex
# Warns at every start about a missing native library that is optional.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""

# A stack frame, or what Java and Spark's shell scripts say after the line that matters.
_NOISE = re.compile(
    r"\s+at |\s*\.\.\. \d+ more|Error: Could not create the Java|Error: A fatal exception has occurred"
    r"|WARNING: |.*bad array subscript|\s*$|Run with --help|.*ShutdownHookManager|#\s*$"
)
_TELLING = re.compile(
    r"error|exception|unrecognized|invalid|could not|unable|insufficient|not found|no such", re.I
)


def open_log(folder: Path) -> tuple[Path, int]:
    """The log in this folder, made if need be, and where in it the next start will begin to write."""
    log = folder / LOG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep_small(folder)
        with log.open("ab") as file:
            return log, file.tell()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SetupError(environment.RUN_DIR_UNWRITABLE.at(path=str(folder), reason=reason)) from error


def keep_small(folder: Path) -> None:
    """Rotate a large log to `spark.log.1`; up to three rotated logs are kept.

    The file itself stays and is truncated: JVMs append to it through the handle they opened at their start,
    and would continue to write to a renamed file.
    """
    log, copy = folder / LOG, folder / f"{LOG}.part"
    # A disk that is full, or a log that another process moves at this moment: the log stays as it is.
    with suppress(OSError):
        if log.stat().st_size <= LARGEST:
            return
        try:
            shutil.copyfile(log, copy)
            _count_up(folder)
            copy.replace(folder / f"{LOG}.1")
            os.truncate(log, 0)
        finally:
            copy.unlink(missing_ok=True)


def _count_up(folder: Path) -> None:
    for number in reversed(range(1, KEPT)):
        with suppress(FileNotFoundError):
            (folder / f"{LOG}.{number}").replace(folder / f"{LOG}.{number + 1}")


def prepare_logging(folder: Path) -> str:
    """Write the logging setup into the folder and return its address for the JVM."""
    file = folder.absolute() / _SETUP
    file.write_text(_PROPERTIES, encoding="utf-8")
    return file.as_uri()


def find_reason(log: Path, began: int) -> tuple[str, str]:
    """The last telling line that was written after position `began`, and all that was written."""
    with log.open("rb") as file:
        file.seek(began)
        text = file.read().decode("utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if not _NOISE.match(line)]
    telling = [line for line in lines if _TELLING.search(line)]
    return (telling or lines or [""])[-1].rstrip("."), text
