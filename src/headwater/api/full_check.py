"""The deep half of `headwater check`: Spark analyses and plans each sink without starting it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from headwater.engine.prepare import prepare
from headwater.engine.session import open_session
from headwater.engine.shared_paths import stream_paths, unshared
from headwater.engine.verdict import Verdict, verdict
from headwater.runtime.run_folder import RunFolder
from headwater.spec import PipelineSpec

_WAREHOUSE = "spark-warehouse"


def check_with_spark(
    spec: PipelineSpec, master: str | None, conf: Mapping[str, str] | None, say: Callable[[str], None]
) -> Verdict:
    """Everything that Spark and the rules over its facts have to say."""
    with _no_warehouse_left(), tempfile.TemporaryDirectory(prefix="headwater-check-") as logs:
        session = open_session(spec, master=master, conf=conf, logs=Path(logs), stdout=lambda line: None)
        try:
            prepared, folder = prepare(session, spec), RunFolder.of(spec)
            heard = verdict(prepared, spec, folder.stored(spec), lambda: folder.reached(spec))
            paths = stream_paths(prepared, spec, heard.facts)
            return heard.with_findings(unshared(prepared, paths, say, starts=False))
        finally:
            session.jvm.stop()


@contextmanager
def _no_warehouse_left() -> Iterator[None]:
    """Remove the directory that Spark creates as soon as it looks for a table in its catalog."""
    existed = os.path.exists(_WAREHOUSE)
    try:
        yield
    finally:
        if not existed:
            # It is missing or empty, unless another process has written into it meanwhile.
            with suppress(OSError):
                os.rmdir(_WAREHOUSE)
