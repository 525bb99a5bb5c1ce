"""The results of `doctor` and `schema`."""

from pathlib import Path

import pytest

from headwater.api import project as module
from headwater.api.project import DoctorResult, connector_reference, doctor, schema
from headwater.engine import prepare
from headwater.engine.doctor import Check
from headwater.errors import UsageError
from headwater.loaders.json_schema import pipeline_schema

OK = Check("java", "ok", "Java 17")
WARNING = Check("memory", "warning", "Little is free.", "Close something.", "HW-MEMORY-LOW")
PARTS = Check("spark parts", "ok", "Spark 4.1.4 has all of them")
ERROR = Check("spark", "error", "It is missing.", "Install it.", "HW-PACKAGE-MISSING")


@pytest.mark.parametrize(("checks", "code"), [((OK,), 0), ((OK, WARNING), 0), ((OK, WARNING, ERROR), 5)])
def test_only_an_error_makes_the_exit_code(checks: tuple[Check, ...], code: int) -> None:
    result = DoctorResult(checks)
    assert result.exit_code == code
    assert result.to_json()["ok"] is (code == 0)


def test_the_json_form_has_every_field() -> None:
    assert DoctorResult((ERROR,)).to_json() == {
        "ok": False,
        "checks": [
            {
                "name": "spark",
                "status": "error",
                "message": "It is missing.",
                "hint": "Install it.",
                "code": "HW-PACKAGE-MISSING",
            }
        ],
    }


def test_the_run_folder_of_the_project_is_examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Path] = []

    def examine(folder: Path) -> list[Check]:
        asked.append(folder)
        return [OK]

    monkeypatch.setattr(module, "examine", examine)
    assert doctor(tmp_path) == DoctorResult((OK,))
    assert asked == [tmp_path / ".headwater"]


def test_nothing_is_made(tmp_path: Path) -> None:
    assert "run directory" in [check.name for check in doctor(tmp_path).checks]
    assert list(tmp_path.iterdir()) == []


def test_spark_is_started_only_when_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "examine", lambda folder: [OK])
    monkeypatch.setattr(prepare, "examine_spark", lambda: [PARTS])
    assert doctor(tmp_path).checks == (OK,)
    assert doctor(tmp_path, spark=True).checks == (OK, PARTS)


def test_spark_is_not_started_where_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "examine", lambda folder: [ERROR])
    monkeypatch.setattr(prepare, "examine_spark", lambda: [PARTS])
    assert doctor(tmp_path, spark=True).checks == (ERROR,)


def test_the_schema_is_that_of_the_loaders() -> None:
    assert schema() == pipeline_schema()


def test_the_reference_of_a_connector_has_the_keys_of_both_sides() -> None:
    files, rate = connector_reference("files"), connector_reference("rate")
    assert files.source is not None
    assert files.sink is not None
    assert {"path", "format", "schema", "clean_up"} <= {key.name for key in files.source}
    assert [key.name for key in files.sink if key.required] == ["path", "format"]
    assert all(key.meaning for key in (*files.source, *files.sink))
    assert rate.sink is None


def test_an_unknown_connector_is_told_with_the_nearest_one() -> None:
    with pytest.raises(UsageError) as error:
        connector_reference("fils")
    (problem,) = error.value.problems
    assert (problem.code, problem.params["hint"]) == ("HW-CONNECTOR-NOT-INSTALLED", "Did you mean `files`?")


@pytest.mark.parametrize(("reason", "shown"), [("", "ok"), ("no Java was found", "error")])
def test_an_archive_that_was_asked_for_and_could_not_be_made_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: str, shown: str
) -> None:
    monkeypatch.setattr(module, "make_now", lambda: reason)
    monkeypatch.setattr(module, "examine", lambda folder: [OK, Check("class data", "ok", "An archive")])
    java, class_data = doctor(tmp_path, class_data=True).checks
    assert (java, class_data.name, class_data.status) == (OK, "class data", shown)
    assert reason in class_data.message
    assert doctor(tmp_path).exit_code == 0
