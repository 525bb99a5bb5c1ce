"""`headwater run` with several pipelines that cannot run together: refused before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.application import APPLICATION
from tests.unit.cli.conftest import Headwater

PIPELINE = """
name: {name}
{keys}
sources: {{clicks: {{connector: rate}}}}
sinks: {{out: {{reads: clicks, connector: noop}}}}
"""


def pipeline(file: Path, name: str, keys: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PIPELINE.format(name=name, keys=keys), encoding="utf-8")
    return file


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("Spark must not start")

    monkeypatch.setattr(APPLICATION, "open", refuse)


@pytest.mark.feature("F2", part="two pipelines with one name")
def test_two_pipelines_with_one_name(headwater: Headwater, tmp_path: Path) -> None:
    files = [pipeline(tmp_path / folder / "p.yml", "orders") for folder in ("a", "b")]
    answer = headwater("run", *files)
    assert answer.code == 3
    assert f"{files[1]}:2:1: error HW-PIPELINE-NAME-CONFLICT" in answer.err
    assert str(files[0]) in answer.err
    assert not list(tmp_path.rglob(".headwater"))


@pytest.mark.feature("F2", part="two pipelines with one run directory")
@pytest.mark.parametrize("keys", ["", "run_dir: ../a/.headwater"])
def test_two_pipelines_with_one_run_directory(headwater: Headwater, tmp_path: Path, keys: str) -> None:
    first = pipeline(tmp_path / "a" / "orders.yml", "orders")
    second = pipeline(tmp_path / ("b" if keys else "a") / "visits.yml", "visits", keys)
    answer = headwater("run", first, second)
    assert answer.code == 3
    assert "error HW-PIPELINE-RUN-DIR-CONFLICT" in answer.err
    assert f"`visits` and `orders` have the same run directory, {tmp_path / 'a' / '.headwater'}" in answer.err
    assert not list(tmp_path.rglob(".headwater"))
