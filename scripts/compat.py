"""Runs the tests with another version of PySpark, in a separate environment: `make compat SPARK=4.2.1`.

The environment contains the locked version of every package except PySpark. It stays in `build/` for the next run.
The gate does not run this.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ("tests/unit", "tests/scripted", "tests/spark", "tests/files")
_SUMMARY = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s")
_FAILED = re.compile(r"^(?:FAILED|ERROR) \S+")


def main() -> int:
    """Exit with 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="the version of PySpark, such as 4.2.1")
    parser.add_argument(
        "tests",
        nargs="*",
        default=TESTS,
        help="paths for pytest; by default, tests/unit, tests/scripted, tests/spark and tests/files",
    )
    given = parser.parse_args()
    python = environment(given.version)
    results = [run(python, each) for each in given.tests]
    print(f"\nPySpark {given.version}:")
    for tests, (summary, failed) in zip(given.tests, results, strict=True):
        print(f"  {tests}: {summary}")
        for name in failed:
            print(f"    {name}")
    return int(any(failed for _, failed in results))


def environment(version: str) -> Path:
    """The Python of an environment with this PySpark. Creates the environment if it is missing."""
    folder = ROOT / "build" / f"compat-{version}"
    python, ready = folder / "venv" / "bin" / "python", folder / ".ready"
    locked = "".join(packages(version))
    if not ready.exists() or ready.read_text() != locked:
        print(
            f"compat: creating an environment with PySpark {version} in {folder.relative_to(ROOT)}",
            flush=True,
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "requirements.txt").write_text(locked)
        uv("venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder / "venv"))
        install(python, "--requirement", str(folder / "requirements.txt"))
        ready.write_text(locked)
    # At each run, because the installed metadata lists the connectors and rules of this version.
    install(python, "--offline", "--no-deps", "--no-build-isolation", "--editable", ".")
    return python


def install(python: Path, *what: str) -> None:
    """Install packages into an environment."""
    uv("pip", "install", "--quiet", "--python", str(python), *what)


def uv(*command: str) -> None:
    """Run the uv of this clone."""
    subprocess.run((str(Path(sys.executable).with_name("uv")), *command), cwd=ROOT, check=True)


def packages(version: str) -> Iterator[str]:
    """The locked packages, line by line, with another PySpark, which installs its own py4j."""
    for line in (ROOT / "requirements" / "dev.lock").read_text().splitlines():
        found = re.match(r"([\w.\-\[\]]+)==([^\s;]+)(\s*;[^\\]*)?", line)
        if found and found[1] == "pyspark":
            yield f"pyspark=={version}\n"
        elif found and found[1] != "py4j":
            yield f"{found[1]}=={found[2]}{(found[3] or '').rstrip()}\n"


def run(python: Path, tests: str) -> tuple[str, Sequence[str]]:
    """The summary of pytest, and the failed tests."""
    print(f"compat: {tests}", flush=True)
    command = (str(python), "-m", "pytest", "-q", "-rfE", "--timeout", "300", tests)
    begun = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        lines = [line.rstrip("\n") for line in process.stdout or () if not print(line, end="", flush=True)]
    failed = [line for line in lines if _FAILED.match(line)]
    ends = [found[1] for line in lines if (found := _SUMMARY.match(line))]
    summary = ends[-1] if ends else f"pytest exited with code {process.returncode}"
    if process.returncode and not failed:
        failed = [f"pytest exited with code {process.returncode}"]
    return f"{summary} in {time.monotonic() - begun:.0f} s", failed


if __name__ == "__main__":
    sys.exit(main())
