"""A separate Spark session that analyzes and plans each sink of a pipeline without starting it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from headwater.engine.outcome import CheckOutcome, check_outcome
from headwater.engine.prepare import Prepared, prepare
from headwater.engine.session import open_session
from headwater.engine.shared_paths import stream_paths, unshared
from headwater.events import Emit
from headwater.runtime.records import RunRecords
from headwater.spec import PipelineSpec

_WAREHOUSE = "spark-warehouse"


def check_with_spark(
    spec: PipelineSpec, master: str | None, conf: Mapping[str, str] | None, emit: Emit
) -> CheckOutcome:
    """The findings of Spark and of the rules over its facts."""
    with analyzed(spec, master, conf) as (prepared, outcome):
        paths = stream_paths(prepared, spec, outcome.facts)
        return outcome.with_findings(unshared(prepared, paths, emit, starts=False))


@contextmanager
def analyzed(
    spec: PipelineSpec, master: str | None, conf: Mapping[str, str] | None
) -> Iterator[tuple[Prepared, CheckOutcome]]:
    """Analyze a pipeline with Spark for the duration of the block, and clean up afterwards."""
    existed = os.path.exists(_WAREHOUSE)
    try:
        with tempfile.TemporaryDirectory(prefix="headwater-check-") as logs:
            session = open_session(spec, master=master, conf=conf, logs=Path(logs), stdout=lambda line: None)
            try:
                prepared, records = prepare(session, spec), RunRecords.of(spec)
                outcome = check_outcome(
                    prepared,
                    spec,
                    records.stored(spec),
                    lambda: records.reached(spec),
                    records.written_by(spec),
                )
                yield prepared, outcome
            finally:
                session.jvm.stop()
    finally:
        if not existed:
            # Spark makes it as soon as it looks for a table in its catalog. It is missing or empty, unless
            # another process has written into it meanwhile.
            with suppress(OSError):
                os.rmdir(_WAREHOUSE)
