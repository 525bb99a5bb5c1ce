"""The deep half of `headwater check`: Spark analyses and plans each sink without starting it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from headwater.checks import Finding, Situation, examine
from headwater.engine.prepare import facts_of, prepare, settings_of
from headwater.engine.session import open_session
from headwater.runtime.run_folder import RunFolder
from headwater.spec import PipelineSpec


def check_with_spark(spec: PipelineSpec, master: str | None, conf: Mapping[str, str] | None) -> list[Finding]:
    """Everything that Spark and the rules over its facts have to say."""
    with tempfile.TemporaryDirectory(prefix="headwater-check-") as logs:
        session = open_session(spec, master=master, conf=conf, logs=Path(logs), stdout=lambda line: None)
        try:
            prepared = prepare(session, spec)
            findings = [Finding(problem, sink=sink) for sink, problem in prepared.problems]
            if findings or prepared.graph is None:
                return findings
            stored = RunFolder.of(spec).stored(spec)
            facts = {
                sink.name: facts_of(prepared, spec, sink, settings_of(session, spec, stored.get(sink.name)))
                for sink in spec.sinks
            }
            return examine(Situation(spec, prepared.graph, facts, stored))
        finally:
            session.jvm.stop()
