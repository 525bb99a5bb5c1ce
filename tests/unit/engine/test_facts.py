"""What facts keep of a declared source and of a sink's place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import IntegerType, StructType

from headwater.checks import Reached
from headwater.engine import facts as module
from headwater.engine import outcome as asking
from headwater.engine.facts import SinkContents, contents_of, source_facts
from headwater.engine.outcome import check_outcome, kept_settings
from headwater.plan import Graph, QueryFacts
from headwater.plan.reader import Steps
from headwater.values import Unpaced
from tests.unit.specs import spec_of


def test_no_secret_of_a_source_is_kept_however_it_is_written() -> None:
    spec = spec_of(
        """
        name: p
        sources:
          rows:
            connector: files
            path: s3a://me:open-sesame@bucket/in
            format: json
            schema: {id: int}
            options:
              api_token: open-sesame
              password: ${secret:WORD}
              url: postgresql://me:open-sesame@db/shop?ssl=true
              authenticate: "false"
              maxTokens: "100"
        sinks: {out: {reads: rows, connector: noop}}
        """
    )
    facts = source_facts(spec.sources[0], Steps((), (), (), ("rows",)), Unpaced(), 0)
    shown = ("api_token", "password", "url", "authenticate", "maxTokens", "path")
    assert {key: facts.options[key] for key in shown} == {
        "api_token": "***",
        "password": "***",
        "url": "postgresql://***@db/shop?ssl=true",
        "authenticate": "false",
        "maxTokens": "100",
        "path": "s3a://***@bucket/in",
    }
    assert facts.places == ("s3a://***@bucket/in",)
    assert "sesame" not in str(facts)


PIPELINE = """
name: shop
sources: {clicks: {connector: rate}}
sinks: {out: {reads: clicks, connector: files, path: out, format: parquet}}
"""
FACTS = QueryFacts(
    sink="out",
    connector="files",
    mode="append",
    root="/project",
    timezone="UTC",
    sources=(),
    output_schema={},
    settings={"spark.sql.shuffle.partitions": "2"},
)


def contents(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> SinkContents:
    monkeypatch.setattr(module, "sink_side", lambda connector: SimpleNamespace(**answers))
    (sink,) = spec_of(PIPELINE).sinks
    frame: Any = SimpleNamespace(schema=None)
    spark: Any = None
    return contents_of(spark, sink, frame)


def unreadable(*_: object) -> StructType:
    raise PySparkException(
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file part-0. SQLSTATE: KD001"
    )


def test_a_connector_that_knows_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    assert contents(monkeypatch) == SinkContents()


def test_what_a_connector_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = StructType().add("id", IntegerType())
    answers = contents(
        monkeypatch,
        stored_batch=lambda *_: 3,
        stored_elsewhere=lambda *_: None,
        stored_schema=lambda *_: schema,
    )
    assert answers == SinkContents({"id": "int"}, 3)


def test_a_file_that_can_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = contents(
        monkeypatch,
        stored_batch=lambda *_: 3,
        stored_elsewhere=lambda *_: None,
        stored_schema=unreadable,
    )
    assert answers == SinkContents({}, 3, "", "Encountered error while reading file part-0")


def test_frozen_settings_are_those_of_the_facts_else_of_the_checkpoint() -> None:
    reached = {name: Reached("/run", (), 0, {"key": "spark"}) for name in ("out", "other")}
    assert kept_settings({"out": FACTS}, reached) == {"out": FACTS.settings, "other": {"key": "spark"}}


def test_a_pipeline_that_runs_meanwhile_is_not_behind_its_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [3]

    def facts_of(*_: object) -> QueryFacts:
        batches.append(4)
        return QueryFacts(**{**vars(FACTS), "held_batch": 4})

    monkeypatch.setattr(asking, "facts_of", facts_of)
    monkeypatch.setattr(asking, "settings_of", lambda *_: ())
    spec = spec_of(PIPELINE)
    prepared: Any = SimpleNamespace(
        session=None,
        builder=SimpleNamespace(frames={}),
        graph=Graph.of(spec),
        frames={"out": SimpleNamespace(isStreaming=True)},
        problems=(),
    )
    outcome = check_outcome(prepared, spec, {"out": FACTS}, lambda: {"out": Reached("/run", (), batches[-1])})
    assert outcome.findings == []
