"""Small pipelines for tests: written to a folder, run until nothing is left, read back exactly."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headwater.api.batch import run_batch
from headwater.api.results import RunResult
from headwater.api.run import Output, run
from headwater.checkpoint import LocalStore, SinkLog
from headwater.engine.launch import artifacts_of, jar_store
from headwater.engine.pipeline_file import load
from headwater.engine.session import add_to
from headwater.events import Event, QueryProgress
from headwater.runtime import RunOptions, start
from headwater.runtime.handles import Run
from headwater.values import Duration

LONGEST = Duration.parse("2 minutes")


def write(folder: Path, text: str, name: str = "pipeline.yml") -> Path:
    """A pipeline file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def feed(folder: Path, name: str, rows: Iterable[Mapping[str, Any]], at: int | None = None) -> None:
    """A file of JSON rows that appears in the folder all at once, as Spark wants it.

    `at` is the file's time in seconds since 1970: Spark takes the oldest file first.
    """
    put(folder / f"{name}.json", "".join(json.dumps(row) + "\n" for row in rows), at)


def put(file: Path, text: str, at: int | None = None) -> None:
    """A text file that appears all at once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.parent.parent / f".{file.parent.name}.{file.name}.part"
    part.write_text(text, encoding="utf-8")
    if at is not None:
        os.utime(part, (at, at))
    part.rename(file)


def run_until_idle(file: Path, events: list[Event] | None = None, **options: Any) -> RunResult:
    """Run a pipeline until nothing is left to read."""
    seen = events if events is not None else []
    lines: list[str] = []
    (result,) = run(
        [file], RunOptions(until_idle=True, **options), Output(seen.append, lines.append), limit=LONGEST
    )
    return result


def run_to_its_end(file: Path, events: list[Event] | None = None) -> RunResult:
    """Run a pipeline whose queries end by themselves."""
    seen = events if events is not None else []
    (result,) = run([file], RunOptions(), Output(seen.append, lambda line: None), limit=LONGEST)
    return result


def run_while(file: Path, steer: Callable[[Run], None], events: list[Event]) -> None:
    """Start a pipeline, let `steer` do something with it, then stop it between two batches."""
    running = start(load(file), RunOptions(), events.append, lambda line: None)
    with running:
        steer(running)
    running.raise_for_failure()


def wait_for(condition: Callable[[], bool], run: Run) -> None:
    """Wait until the condition holds while the run goes on."""
    deadline = threading.Event()
    timer = threading.Timer(LONGEST.seconds, deadline.set)
    timer.start()
    try:
        while not condition():
            assert not deadline.is_set(), "what was waited for did not come"
            assert not run.wait(0.05), "the run ended before what was waited for"
    finally:
        timer.cancel()


def run_as_batch(file: Path, into: Path) -> None:
    """Run a pipeline as a batch."""
    run_batch(file, RunOptions(), into=into, stdout=lambda line: None)


def batches(events: list[Event], query: str) -> list[QueryProgress]:
    """The committed batches of one query, in order."""
    return [event for event in events if isinstance(event, QueryProgress) and event.query == query]


def rows_of(
    spark: Any, folder: Path, format: str = "json", schema: str | None = None
) -> Counter[tuple[Any, ...]]:
    """The rows of a folder as Spark reads them, as a multiset."""
    reader = spark.read.format(format)
    frame = (reader.schema(schema) if schema else reader).load(str(folder))
    return Counter(tuple(row) for row in frame.collect())


def committed(folder: Path, column: str = "id") -> Counter[Any]:
    """A column of the rows that a sink of JSON files has committed, as a multiset, without Spark."""
    files = (urlsplit(file.path).path for file in SinkLog(LocalStore(folder)).files())
    lines = (line for file in files for line in Path(unquote(file)).read_text(encoding="utf-8").splitlines())
    return Counter(json.loads(line)[column] for line in lines)


def with_avro(spark: Any) -> None:
    """Let a test's own session read and write avro."""
    with_jars(spark, "avro")


def with_jars(spark: Any, connector: str) -> None:
    """Let a test's own session use what Spark lacks for a connector."""
    store = jar_store()
    add_to(spark, tuple(str(store.take(artifact).path) for artifact in artifacts_of(connector)))


CAPTURE = """
import json
from pathlib import Path

FOLDER = Path(__file__).parent / "captured"


def keep(sink, batch, batch_id):
    file = FOLDER / sink / f"{batch_id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    # A test may look while this writes: the file appears whole.
    part = FOLDER / f"{sink}.{batch_id}.part"
    part.write_text(json.dumps([list(row) for row in batch.collect()], default=str), encoding="utf-8")
    part.rename(file)

"""


def capture(folder: Path, *sinks: str) -> None:
    """A `capture.py` with a `foreach_batch` function for each sink, which keeps the rows of every batch."""
    functions = (f"def {sink}(batch, batch_id):\n    keep({sink!r}, batch, batch_id)\n" for sink in sinks)
    write(folder, CAPTURE + "\n\n".join(functions), "capture.py")


def captured(folder: Path, sink: str) -> list[Counter[tuple[Any, ...]]]:
    """The rows of every batch of a capturing sink, in order."""
    files = (folder / "captured" / sink).iterdir()
    found = {int(file.stem): json.loads(file.read_text(encoding="utf-8")) for file in files}
    return [Counter(_hashable(row) for row in found[batch_id]) for batch_id in sorted(found)]


def _hashable(value: Any) -> Any:
    return tuple(_hashable(each) for each in value) if isinstance(value, list) else value
