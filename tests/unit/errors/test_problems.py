"""Problems as they are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors.catalogue.pipelines import CODE_SYNTAX
from headwater.values import Position


def shown(file: str | Path) -> str:
    problem = CODE_SYNTAX.at(Position(str(file), 3, 5), file="x", reason="y")
    assert problem.to_json()["file"] == problem.file
    assert str(problem).startswith(f"{problem.file}:3:5: HW-CODE-SYNTAX")
    return problem.location


def test_a_place_below_the_current_folder_is_shown_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project" / "lib").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    assert shown(tmp_path / "project" / "lib" / "code.py") == "lib/code.py:3:5"
    assert shown(tmp_path / "code.py") == f"{tmp_path}/code.py:3:5"
    assert shown("pipeline.yml") == "pipeline.yml:3:5"
    assert shown("../other/pipeline.yml") == "../other/pipeline.yml:3:5"


def test_a_current_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert shown("/project/code.py") == "/project/code.py:3:5"


def test_a_problem_without_a_place() -> None:
    problem = CODE_SYNTAX.at(None, file="x", reason="y")
    assert (problem.file, problem.location, problem.to_json()["file"]) == ("", "", None)
