"""The end of a proof: what was scratch is removed, or named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import headwater.api.prove as api
from headwater.connectors.databases.errors import DATABASE_UNAVAILABLE
from headwater.errors import HeadwaterError, Problem, QueryFailedError
from headwater.errors.catalogue.proving import PROVE_SCRATCH_LEFT, PROVE_TIMEOUT
from headwater.proof import contents as module
from headwater.proof.certificate import Reference
from headwater.proof.contents import Contents, as_rows
from headwater.proof.prover import Prover, close

DOWN = QueryFailedError(PROVE_TIMEOUT.at(None, timeout="1 s", kills=0, planned=1))


class Side:
    """A sink in a database that is down for some tables."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def places(self, options: Any) -> tuple[str, ...]:
        return (f"table {options}",)

    def scratch(self, options: Any, scratch: Any) -> Any:
        return options

    def discard(self, options: Any, context: Any) -> None:
        if options == "down":
            raise DOWN
        self.removed.append(options)

    batch = True


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch) -> Side:
    side = Side()
    monkeypatch.setattr(module, "sink_side", lambda name: side)
    return side


def contents_of(**sinks: str) -> Contents:
    prepared = SimpleNamespace(builder=SimpleNamespace(context=lambda sink: None))
    specs = [
        SimpleNamespace(name=name, connector="any", options=options, position=None)
        for name, options in sinks.items()
    ]
    return Contents(prepared, tuple(specs))  # type: ignore[arg-type]


def test_a_table_that_cannot_be_removed_is_named_and_the_others_are_removed(side: Side) -> None:
    contents = contents_of(a="down", b="up")
    with pytest.raises(HeadwaterError) as error:
        contents.discard()
    (problem,) = error.value.problems
    says = DOWN.problems[0].message.rstrip(".")
    assert problem == PROVE_SCRATCH_LEFT.at(None, sink="a", place="table down", says=says)
    assert side.removed == ["up"]


def test_the_end_reports_what_is_left_and_does_not_fail(side: Side) -> None:
    closed: list[bool] = []
    launcher: Any = SimpleNamespace(close=lambda: closed.append(True))
    assert [each.params["place"] for each in close(contents_of(a="down"), launcher)] == ["table down"]
    assert close(None, launcher) == ()
    assert closed == [True, True]


def test_scratch_copies_that_are_kept_are_named(side: Side) -> None:
    launcher: Any = SimpleNamespace(close=lambda: None)
    contents = contents_of(a="up", b="down")
    assert close(contents, launcher, keep=True) == ()
    assert side.removed == []
    assert contents.places() == ("table up", "table down")


def prover_of(error: Exception, monkeypatch: pytest.MonkeyPatch, side: Side) -> Prover:
    """A prover whose batch run fails."""
    contents = contents_of(a="up")

    def write_batch(name: str) -> None:
        raise error

    monkeypatch.setattr(contents, "write_batch", write_batch)
    monkeypatch.setattr("headwater.proof.prover.sink_side", lambda name: side)
    nothing: Any = None
    return Prover(nothing, nothing, contents, nothing, nothing, lambda event: None)


def test_why_there_is_no_batch_result_is_kept(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    prover = prover_of(ValueError("two rows\nof one key"), monkeypatch, side)
    reason = prover._batch_rows("a")
    expected = prover._expected("a", reason, as_rows([(1,)]))
    assert (expected.reference, expected.no_batch) == (Reference.STREAM, "ValueError: two rows")


def test_a_database_that_is_down_is_no_reason(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    down = QueryFailedError(DATABASE_UNAVAILABLE.at(None, sink="a", says="refused", address="h"))
    with pytest.raises(QueryFailedError, match="refused"):
        prover_of(down, monkeypatch, side)._batch_rows("a")


@pytest.mark.parametrize("error", [ValueError("year 0 is out of range"), OverflowError("too large")])
def test_a_value_that_cannot_be_read_is_an_error_of_the_sink(
    side: Side, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    contents = contents_of(a="up")

    def read(name: str) -> None:
        raise error

    monkeypatch.setattr(contents, "_read", read)
    assert contents.try_read("a") is None
    with pytest.raises(QueryFailedError, match=str(error)) as failed:
        contents.read_finally("a")
    assert failed.value.problems[0].code == "HW-PROVE-READ-FAILED"


@pytest.mark.parametrize("fails", [False, True])
def test_the_jvm_is_stopped_and_the_first_error_is_shown(
    monkeypatch: pytest.MonkeyPatch, side: Side, fails: bool
) -> None:
    stopped, printed = list[bool](), list[str]()
    session = SimpleNamespace(jvm=SimpleNamespace(stop=lambda: stopped.append(True)))
    left = PROVE_SCRATCH_LEFT.at(None, sink="a", place="table t", says="refused")

    def end(contents: Any, launcher: Any, *, keep: bool) -> tuple[Problem, ...]:
        if fails:
            raise RuntimeError("lost")
        return (left,)

    def prepare(*_: Any, **__: Any) -> None:
        raise DOWN

    monkeypatch.setattr(api, "open_session", lambda *_, **__: session)
    monkeypatch.setattr(api, "prepare", prepare)
    monkeypatch.setattr(api, "close", end)
    nothing: Any = None
    with pytest.raises(RuntimeError if fails else QueryFailedError):
        api._prove(nothing, nothing, api.ProofOptions(), (), lambda event: None, printed.append)
    assert stopped == [True]
    assert printed == ([] if fails else [str(left)])
