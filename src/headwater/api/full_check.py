"""The deep half of `headwater check`: Spark analyses and plans each sink without starting it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from headwater.engine.prepare import prepare
from headwater.engine.session import open_session
from headwater.engine.verdict import Verdict, verdict
from headwater.runtime.run_folder import RunFolder
from headwater.spec import PipelineSpec


def check_with_spark(spec: PipelineSpec, master: str | None, conf: Mapping[str, str] | None) -> Verdict:
    """Everything that Spark and the rules over its facts have to say."""
    with tempfile.TemporaryDirectory(prefix="headwater-check-") as logs:
        session = open_session(spec, master=master, conf=conf, logs=Path(logs), stdout=lambda line: None)
        try:
            prepared, folder = prepare(session, spec), RunFolder.of(spec)
            return verdict(prepared, spec, folder.stored(spec), lambda: folder.reached(spec))
        finally:
            session.jvm.stop()
