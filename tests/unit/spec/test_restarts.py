"""`restart` and `on_failure`, as users write them in either form."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import PipelineError
from headwater.loaders.python_form import Declarations
from headwater.spec import PipelineSpec, RestartPolicy
from headwater.values import Duration
from tests.unit.specs import spec_of

pytestmark = pytest.mark.feature("F3", part="the keys of restarts, without Spark")

HERE = Path(__file__).parent
YAML = """
    name: shop
    restart: {attempts: 3, within: 5 minutes, backoff: 2 seconds, max_backoff: 30 seconds}
    on_failure: stop
    sources: {ticks: {connector: rate}}
    sinks:
      plain: {reads: ticks, connector: noop}
      never: {reads: ticks, connector: noop, restart: never, on_failure: continue}
      often: {reads: ticks, connector: noop, restart: {attempts: 100}}
"""
POLICY = RestartPolicy(
    attempts=3,
    within=Duration.parse("5 minutes"),
    backoff=Duration.parse("2 seconds"),
    max_backoff=Duration.parse("30 seconds"),
)


def declared(**keys: object) -> PipelineSpec:
    """A pipeline with one sink, in Python."""
    p = Declarations("shop", **keys)  # type: ignore[arg-type]
    p.source("ticks", hw.rate())
    p.sink("out", hw.noop(), reads="ticks")
    return p.spec()


def test_a_sink_without_a_key_has_that_of_the_pipeline() -> None:
    spec = spec_of(YAML, HERE)
    plain, never, often = spec.sinks
    assert (spec.restart_policy(), spec.restart_policy(plain)) == (POLICY, POLICY)
    assert spec.restart_policy(never) == RestartPolicy.never()
    # Of an object, all keys count: what it omits has the default, not the value of the pipeline.
    assert spec.restart_policy(often) == RestartPolicy(attempts=100)
    assert [spec.stops_on_failure_of(sink) for sink in spec.sinks] == [True, False, True]


def test_both_forms_have_one_meaning() -> None:
    p = Declarations(
        "shop",
        restart={"attempts": 3, "within": "300 seconds", "backoff": "2 seconds", "max_backoff": "30 seconds"},
        on_failure="stop",
    )
    p.source("ticks", hw.rate())
    p.sink("plain", hw.noop(), reads="ticks")
    p.sink("never", hw.noop(), reads="ticks", restart="never", on_failure="continue")
    p.sink("often", hw.noop(), reads="ticks", restart={"attempts": 100})
    assert p.spec() == spec_of(YAML, HERE)


def test_without_keys_failed_queries_are_restarted_and_the_others_continue() -> None:
    spec = declared()
    (out,) = spec.sinks
    assert spec.restart_policy(out) == RestartPolicy(
        attempts=10,
        within=Duration.parse("10 minutes"),
        backoff=Duration.parse("1 second"),
        max_backoff=Duration.parse("1 minute"),
    )
    assert not spec.stops_on_failure_of(out)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"restart": "always"}, "expected `never`"),
        ({"restart": {"attempts": -1}}, "attempts"),
        ({"restart": {"backoff": "2 minutes"}}, "`backoff` is longer than `max_backoff`"),
        ({"on_failure": "end"}, "on_failure"),
    ],
)
def test_other_values_are_errors(keys: dict[str, object], says: str) -> None:
    with pytest.raises(PipelineError) as refused:
        declared(**keys)
    (problem,) = refused.value.problems
    assert problem.code == "HW-VALUE-INVALID"
    assert says in problem.message
