"""The check with Spark leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api import analysis
from headwater.engine.pipeline_file import load
from headwater.errors import SetupError
from headwater.errors.catalogue.environment import SPARK_START_FAILED


@pytest.mark.parametrize("existed", [False, True])
def test_spark_leaves_no_warehouse_where_there_was_none(
    existed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark creates the directory when it looks for a table; here a stand-in does so and fails."""

    def open_session(*_: object, **__: object) -> None:
        (tmp_path / "spark-warehouse").mkdir(exist_ok=True)
        raise SetupError(SPARK_START_FAILED.at(master="local", reason="a test", log="none"))

    file = tmp_path / "p.yml"
    file.write_text("name: p\nsources: {s: {connector: rate}}\nsinks: {s: {reads: s, connector: noop}}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(analysis, "open_session", open_session)
    if existed:
        (tmp_path / "spark-warehouse").mkdir()
    with pytest.raises(SetupError):
        analysis.check_with_spark(load(file), None, None, lambda text: None)
    assert (tmp_path / "spark-warehouse").exists() is existed
