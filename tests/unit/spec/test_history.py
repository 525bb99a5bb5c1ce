"""Where the events of a run go: the keys in both forms, and their errors with positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import PipelineError
from headwater.loaders.python_form import Declarations
from headwater.spec import PipelineSpec
from headwater.spec.history import HistoryKeys
from headwater.values import Duration, Secret, secret
from tests.unit.specs import spec_of

REST = """
sources: {clicks: {connector: rate}}
sinks: {out: {reads: clicks, connector: noop}}
"""


def in_yaml(keys: str, root: Path) -> PipelineSpec:
    return spec_of(f"name: p\n{keys}{REST}", root)


def in_python(**keys: Any) -> Declarations:
    p = Declarations("p", **keys)
    p.source("clicks", hw.rate())
    p.sink("out", hw.noop(), reads="clicks")
    return p


@pytest.fixture
def root(tmp_path: Path) -> Path:
    code = "def notify(event): ...\n\n\ndef two(event, more): ...\n"
    (tmp_path / "alerts.py").write_text(code, encoding="utf-8")
    return tmp_path


def notify(event: hw.events.Event) -> None:
    """Receives events."""


def test_the_defaults() -> None:
    spec = in_python().spec()
    assert (spec.history.max_age, spec.history.max_size) == (Duration.parse("30 days"), 500 * 1024 * 1024)
    assert (spec.event_log, spec.webhook, spec.on_event) == (None, None, None)


def test_both_forms_have_the_same_keys(root: Path) -> None:
    keys = (
        "history: {max_age: 1 week, max_size: 2 GB}\n"
        "event_log: logs/events.jsonl\n"
        "webhook: https://hooks.example.com/${secret:TOKEN}\n"
        "on_event: alerts.py:notify\n"
    )
    spec = in_yaml(keys, root)
    assert spec.history == HistoryKeys(max_age=Duration.parse("7 days"), max_size=2 << 30)
    assert spec.event_log == str(root / "logs" / "events.jsonl")
    assert spec.webhook == Secret("https://hooks.example.com/${secret:TOKEN}")
    assert str(spec.on_event) == f"{root / 'alerts.py'}:notify"
    written = in_python(
        history={"max_age": "1 week", "max_size": "2 GB"},
        event_log=root / "logs" / "events.jsonl",
        webhook=Secret("https://hooks.example.com/${secret:TOKEN}"),
        on_event=f"{root / 'alerts.py'}:notify",
    ).spec()
    for key in ("history", "event_log", "webhook", "on_event"):
        assert getattr(written, key) == getattr(spec, key)


def test_python_accepts_a_function_and_a_plain_url() -> None:
    spec = in_python(on_event=notify, webhook="http://localhost:1/hook").spec()
    assert spec.on_event is not None
    assert (spec.on_event.function, spec.webhook) == (notify, "http://localhost:1/hook")
    assert in_python(webhook=secret("HOOK_URL")).spec().webhook == Secret("${secret:HOOK_URL}")


@pytest.mark.parametrize(
    ("keys", "code", "column", "word"),
    [
        ("history: {max_age: 30}", "HW-VALUE-INVALID", 20, "needs a unit"),
        ("history: {max_age: 10 minutes}", "HW-VALUE-INVALID", 20, "Write at least `1 hour`."),
        ("history: {max_size: 500 megs}", "HW-VALUE-INVALID", 21, "expected a size, got `500 megs`"),
        ("history: {max_size: 1 MB}", "HW-VALUE-INVALID", 21, "Write at least `10 MB`."),
        ("history: {max_sice: 1 GB}", "HW-KEY-UNKNOWN", 11, "Did you mean `max_size`?"),
        ("history: 30 days", "HW-VALUE-INVALID", 10, "mapping"),
        ("event_log: s3://bucket/events", "HW-VALUE-INVALID", 12, "expected a local file"),
        ("event_log: ''", "HW-VALUE-INVALID", 12, "the path is empty"),
        (
            "webhook: hooks.example.com/token",
            "HW-VALUE-INVALID",
            10,
            "Write one that starts with `https://` or `http://`.",
        ),
        ("on_event: notify", "HW-VALUE-INVALID", 11, "does not name a function"),
        ("on_event: alerts.py:notfy", "HW-CODE-NAME-NOT-FOUND", 11, "notify"),
        ("on_event: other.py:notify", "HW-CODE-FILE-NOT-FOUND", 11, "alerts.py"),
    ],
)
def test_a_wrong_value_is_reported_with_its_position(
    keys: str, code: str, column: int, word: str, root: Path
) -> None:
    with pytest.raises(PipelineError) as error:
        in_yaml(f"{keys}\n", root)
    (problem,) = error.value.problems
    assert problem.place is not None
    assert (problem.code, problem.place.line, problem.place.column) == (code, 2, column)
    assert word in f"{problem.message} {problem.hint}"
    assert "example.com" not in str(problem)


def test_a_function_that_takes_no_event_is_reported_at_its_def(root: Path) -> None:
    with pytest.raises(PipelineError) as error:
        in_yaml("on_event: alerts.py:two\n", root)
    (problem,) = error.value.problems
    assert problem.place is not None
    assert (problem.code, problem.place.file, problem.place.line) == (
        "HW-FUNCTION-ARGUMENTS-MISMATCH",
        str(root / "alerts.py"),
        4,
    )


def test_a_wrong_value_in_python_is_reported_at_the_call() -> None:
    declared = in_python(history={"max_size": "many"}, webhook="ftp://host", on_event=print)
    with pytest.raises(PipelineError) as error:
        declared.spec()
    places = {(problem.place.file, problem.place.line) for problem in error.value.problems if problem.place}
    assert [problem.code for problem in error.value.problems] == ["HW-VALUE-INVALID"] * 3
    assert places == {(declared.of_key(()).file, declared.of_key(()).line)}
