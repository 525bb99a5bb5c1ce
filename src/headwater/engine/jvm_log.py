"""Spark's log file: how it is set up, and the line in it that says why the JVM did not start."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.errors import EnvironmentProblem
from headwater.errors.catalogue import environment

LOG = "spark.log"

_SETUP = "log4j2.properties"
_PROPERTIES = """\
# Written by Headwater at each start. Standard error is appended to spark.log beside this file.
status = error
rootLogger.level = warn
rootLogger.appenderRef.log.ref = log
appender.log.type = Console
appender.log.name = log
appender.log.target = SYSTEM_ERR
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %-5p %c: %m%n%ex
# Says on every start that a library is missing which nobody installs.
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
        with log.open("ab") as file:
            return log, file.tell()
    except OSError as error:
        reason = error.strerror or str(error)
        raise EnvironmentProblem(
            environment.FOLDER_NOT_WRITABLE.at(path=str(folder), reason=reason)
        ) from error


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
