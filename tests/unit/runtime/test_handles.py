"""The queries of a run, looked up by name."""

from __future__ import annotations

import pytest

from headwater.errors import HeadwaterError, QueryNotFoundError, UsageError
from headwater.runtime.host import ControlledRun
from headwater.values import Secret
from tests.unit.runtime.queries import running


@pytest.mark.parametrize("way", ["queries", "query"])
@pytest.mark.parametrize(
    ("name", "hint"), [("revenu", "Did you mean `revenue`?"), ("x", "Check the spelling.")]
)
def test_an_unknown_query_is_told_with_the_known_ones(way: str, name: str, hint: str) -> None:
    with running("revenue", "orders") as (run, _, _):
        with pytest.raises(QueryNotFoundError) as caught:
            run.queries[name] if way == "queries" else run.query(name)
        (problem,) = caught.value.problems
        assert problem.code == "HW-QUERY-NOT-FOUND"
        assert problem.params == {"name": name, "known": "revenue, orders", "hint": hint}
        assert str(caught.value) == str(problem)


def test_it_is_a_lookup_that_fails_and_an_error_of_ours() -> None:
    assert issubclass(QueryNotFoundError, KeyError)
    assert issubclass(QueryNotFoundError, HeadwaterError)
    with running("out") as (run, _, _):
        queries = run.queries
        assert (queries.get("nope"), "nope" in queries, "out" in queries) == (None, False, True)
        assert list(queries) == ["out"]


def test_a_plan_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_TOKEN", "planned-and-secret")
    Secret("${secret:PLAN_TOKEN}").reveal()
    with running("out") as (run, queries, _):
        plan = "Scan [token=planned-and-secret]"
        monkeypatch.setattr(queries["out"], "plan", lambda: plan, raising=False)
        assert run.queries["out"].plan() == "Scan [token=***]"
        assert ControlledRun(run._supervisor).plan("out") == "Scan [token=***]"
        run._supervisor.restarts.spark_died()
        with pytest.raises(UsageError) as raised:
            ControlledRun(run._supervisor).plan("out")
        assert [each.code for each in raised.value.problems] == ["HW-SPARK-RESTARTING"]
