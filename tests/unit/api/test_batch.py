"""What keeps a batch run from starting, told before anything is written and before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api import batch
from headwater.api.batch import run_batch
from headwater.errors import PipelineError
from headwater.runtime import RunOptions
from headwater.spec import PipelineSpec
from tests.unit.specs import spec_of


class Opened(Exception):
    """Spark would have started."""


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Opened

    monkeypatch.setattr(batch, "open_session", refuse)


def refused(spec: PipelineSpec, into: Path) -> list[str]:
    """The codes of the refusal; none where Spark would have started."""
    try:
        run_batch(spec, RunOptions(), into=into, stdout=print)
    except PipelineError as error:
        return [problem.code for problem in error.problems]
    except Opened:
        return []
    raise AssertionError("a session was opened")


@pytest.mark.parametrize(
    ("path", "into", "codes"),
    [
        ("data/*/*.json", "data", ["HW-BATCH-OUTPUT-DIR-CONFLICT"]),
        ("data/*/*.json", "data/2026", []),
        ("data/*/*/*.json", "data/2026", ["HW-BATCH-OUTPUT-DIR-CONFLICT"]),
        ("data/*", "data/2026", ["HW-BATCH-OUTPUT-DIR-CONFLICT"]),
        ("kept/data/*.json", ".", ["HW-BATCH-OUTPUT-DIR-CONFLICT"]),
        ("*.json", "results", []),
        ("data/*/*.json", "results", []),
        ("data", "linked", ["HW-BATCH-OUTPUT-DIR-CONFLICT"]),
    ],
)
def test_results_may_not_lie_where_a_source_reads(
    path: str, into: str, codes: list[str], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "data")
    spec = spec_of(
        f"""
        name: p
        sources: {{clicks: {{connector: files, path: "{path}", format: json, schema: {{id: int}}}}}}
        sinks: {{kept: {{reads: clicks, connector: files, path: out, format: json}}}}
        """,
        tmp_path,
    )
    assert refused(spec, tmp_path / into) == codes


def test_a_missing_secret_of_the_last_sink_is_told_before_the_first_is_written(tmp_path: Path) -> None:
    spec = spec_of(
        """
        name: p
        sources: {clicks: {connector: files, path: "*.json", format: json, schema: {id: int}}}
        sinks:
          first: {reads: clicks, connector: files, path: out, format: json}
          last: {reads: clicks, connector: console, options: {key: "${secret:NO_SUCH_SECRET}"}}
        """,
        tmp_path,
    )
    assert refused(spec, tmp_path / "results") == ["HW-SECRET-MISSING"]
