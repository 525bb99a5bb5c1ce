"""Which local paths of a run the executors of a cluster would use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.connectors import sink_side
from headwater.engine.outcome import check_outcome
from headwater.engine.pipeline_file import load
from headwater.engine.prepare import prepare
from headwater.engine.session import open_session
from headwater.engine.shared_paths import stream_paths
from headwater.plan.quarantine import with_quarantine
from tests.pipelines import feed, write

PIPELINE = """
name: birds
sources:
  seen:
    connector: files
    path: seen
    format: json
    schema: {bird: string}
    bad_rows: quarantine
  names: {connector: files, path: [names, "file:ROOT/more"], format: json, schema: {bird: string}}
  unread: {connector: files, path: unread, format: json, schema: {bird: string}}
  fixed: {connector: files, path: fixed, format: json, schema: {bird: string}, static: true}
tables:
  kinds: SELECT DISTINCT bird FROM seen
  known: SELECT n.bird FROM names n JOIN fixed USING (bird)
sinks:
  kinds: {reads: kinds, connector: noop}
  known: {reads: known, connector: files, path: known, format: json}
"""


def used(folder: Path) -> set[tuple[str, str, bool]]:
    """Use, path below the folder, and whether executors write there."""
    spec = with_quarantine(load(folder / "pipeline.yml"))
    prepared = prepare(open_session(spec, stdout=lambda line: None), spec)
    facts = check_outcome(prepared, spec, {}, dict[str, Any]).facts
    return {
        (each.use, str(Path(each.path).relative_to(folder)), each.writes)
        for each in stream_paths(prepared, spec, facts)
    }


def test_what_the_executors_of_a_run_use(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, PIPELINE.replace("ROOT", str(tmp_path)))
    for name in ("seen", "names", "more", "unread", "fixed"):
        feed(tmp_path / name, "1", [{"bird": "wren"}])
    expected = {
        ("Query `kinds` stores its state in", ".headwater/checkpoints/kinds", True),
        ("The quarantine of `seen` is in", ".headwater/quarantine/seen/rows", True),
        ("Sink `known` writes to", "known", True),
        ("Source `seen` reads", "seen", False),
        ("Source `names` reads", "names", False),
        ("Source `names` reads", "more", False),
        ("Source `fixed` stores copies of its files in", ".headwater/static/fixed", False),
    }
    assert used(tmp_path) == expected
    monkeypatch.setattr(sink_side("files"), "on_driver", True)
    assert used(tmp_path) == {
        each for each in expected if "Sink" not in each[0] and "quarantine" not in each[0]
    }
