"""Measures the startup time of `import headwater`, `--help`, and an offline check of 100 tables.

    python bench/startup.py [ROUNDS]

Runs each command several times in its own process. Prints the best and the median elapsed time, and the median CPU
time, which other programs affect less.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

TABLES = 100
MAIN = "from headwater.cli.main import main; main()"


def pipeline(tables: int) -> str:
    """A pipeline of tables; each joins the previous one with a source and counts in windows."""
    names = ["clicks", *(f"t{number}" for number in range(tables))]
    lines = ["name: many", "sources:", "  clicks: {connector: rate}", "tables:"]
    for before, name in pairwise(names):
        lines += [
            f"  {name}: |",
            "    SELECT a.timestamp, a.value, count(*) AS number, max(b.value) AS newest",
            f"    FROM {before} a JOIN clicks b ON a.value = b.value",
            "    GROUP BY window(a.timestamp, '10 minutes'), a.timestamp, a.value",
        ]
    lines += ["sinks:", f"  out: {{reads: {names[-1]}, connector: noop}}"]
    return "\n".join(lines) + "\n"


def seconds(command: Sequence[str], rounds: int, bytecode: Path) -> tuple[list[float], list[float]]:
    """Elapsed time and CPU time of a command, for several rounds."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = str(bytecode)
    clock, processor = [], []
    for _ in range(rounds + 1):
        began, used = time.perf_counter(), _used()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environ)
        clock.append(time.perf_counter() - began)
        processor.append(_used() - used)
    # The first round compiles the modules, like the first use after an installation.
    return clock[1:], processor[1:]


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "many.yml"
        file.write_text(pipeline(TABLES), encoding="utf-8")
        commands = {
            "python alone": ["-c", "pass"],
            "import headwater": ["-c", "import headwater"],
            "headwater --help": ["-c", MAIN, "--help"],
            f"offline check, {TABLES} tables": ["-c", MAIN, "check", "--offline", str(file)],
        }
        print(f"{'':28}{'best':>8}{'median':>8}{'CPU':>11}")
        for title, arguments in commands.items():
            clock, processor = seconds([sys.executable, *arguments], rounds, Path(folder) / "bytecode")
            print(
                f"{title:28}{min(clock):7.2f}s{statistics.median(clock):7.2f}s"
                f"{statistics.median(processor):10.2f}s"
            )


if __name__ == "__main__":
    main()
