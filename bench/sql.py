"""How long `headwater sql` takes in a second process while the pipeline runs, from the command to its exit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.children import JobFailed, excerpt, run_command
from bench.harness import HEADWATER, Benchmark, Case, Sample, Target, Variant

ROWS_PER_FILE, FILES, FEW = 10_000, 20, 5
LONGEST_SECONDS, TICK_SECONDS = 120.0, 0.2
MOST_SECONDS = 1.0
PREPARED_SECONDS = 5.0
BARE, STATUS = "Python alone", "headwater status"
PIPELINE = """\
name: sql
sources:
  events: {{connector: files, path: {data}, format: json, schema: {{id: bigint, k: bigint}}, max_files_per_batch: 10}}
sinks:
  stored: {{reads: events, connector: files, path: stored, format: parquet, trigger: every 1 second}}
  kept: {{reads: events, connector: memory, trigger: every 1 second}}
"""
MAIN = "from headwater.cli.main import main; main()"


def command(folder: Path, *arguments: str) -> list[str]:
    """A command of Headwater for the run in a directory."""
    name, *others = arguments
    return [sys.executable, "-c", MAIN, name, str(folder / ".headwater"), *others]


def rows_in(folder: Path) -> list[int]:
    """The rows that each query of the run has read and committed, if all are idle; empty until then."""
    done = subprocess.run(command(folder, "status", "--json"), capture_output=True, text=True)
    found = json.loads(done.stdout) if done.returncode == 0 else {}
    queries = found.get("queries", [])
    return [each["rows_in"] for each in queries] if all(each["status"] == "idle" for each in queries) else []


@contextmanager
def pipeline(folder: Path, files: int) -> Iterator[None]:
    """The pipeline runs inside the block, and has read all rows. No query was sent to it."""
    data = folder / "events"
    data.mkdir()
    for number in range(files):
        first = number * ROWS_PER_FILE
        rows = (json.dumps({"id": row, "k": row % 100}) + "\n" for row in range(first, first + ROWS_PER_FILE))
        (data / f"{number}.json").write_text("".join(rows), encoding="utf-8")
    (folder / "pipeline.yml").write_text(PIPELINE.format(data=data), encoding="utf-8")
    output = folder / "output.txt"
    with output.open("wb") as file:
        running = subprocess.Popen(
            [sys.executable, "-c", MAIN, "run", "pipeline.yml"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + LONGEST_SECONDS + files
        while rows_in(folder) != [files * ROWS_PER_FILE] * 2:
            if running.poll() is not None or time.monotonic() > deadline:
                text = output.read_text(encoding="utf-8", errors="replace")
                raise JobFailed(f"the pipeline did not read its {files} files:\n{excerpt(text)}")
            time.sleep(TICK_SECONDS)
        yield
    finally:
        running.terminate()
        running.wait()


class Sql(Benchmark):
    """A query from a second process, with the start of that process."""

    name = "sql"
    title = "SQL from a second process"
    description = (
        "`headwater sql` counts the rows of a table of a running pipeline. The time is that of the whole command. "
        "The two queries of the pipeline poll for files each second. The first query of a run comes "
        f"{PREPARED_SECONDS:g} seconds after its queries are idle: by then, the run has prepared it. The others come "
        "after some queries."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-sql-") as folder, ExitStack() as self.steps:
            self.folder = Path(folder)
            yield

    def _first(self, folder: Path) -> Sample:
        """The first query of a run of its own."""
        with pipeline(folder, FEW):
            time.sleep(PREPARED_SECONDS)
            return self._timed(command(folder, "sql", "SELECT count(*) FROM stored"))(folder)

    def cases(self, quick: bool) -> Iterable[Case]:
        files = FEW if quick else FILES
        yield Case(
            f"the first query of a run: count {FEW * ROWS_PER_FILE:,} rows of Parquet files",
            "s",
            "lower",
            [
                Variant(HEADWATER, self._first),
                Variant(BARE, self._timed([sys.executable, "-c", "pass"])),
            ],
            baseline=BARE,
            targets=[Target(HEADWATER, None, MOST_SECONDS, "at most")],
        )
        self.steps.enter_context(pipeline(self.folder, files))
        for table, what in (("kept", "a table in memory"), ("stored", "Parquet files")):
            rows = files * ROWS_PER_FILE
            yield Case(
                f"count {rows:,} rows of {what}",
                "s",
                "lower",
                [
                    Variant(HEADWATER, self._measured("sql", f"SELECT count(*) FROM {table}")),
                    Variant(
                        STATUS, self._measured("status"), note="the same start of a process, without Spark"
                    ),
                    Variant(BARE, self._timed([sys.executable, "-c", "pass"])),
                ],
                baseline=BARE,
                targets=[Target(HEADWATER, None, MOST_SECONDS, "at most")],
            )

    def _measured(self, *arguments: str) -> Callable[[Path], Sample]:
        return self._timed(command(self.folder, *arguments))

    def _timed(self, arguments: list[str]) -> Callable[[Path], Sample]:
        def measured(folder: Path) -> Sample:
            done = run_command(arguments, folder, environ=dict(os.environ))
            return Sample(done.seconds, done.cpu_seconds)

        return measured


BENCHMARK = Sql()
