"""A new project: its files, what it refuses, and that its pipeline is right."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from headwater.api.check import check
from headwater.api.project import KINDS, TEMPLATES, InitResult, Template, init
from headwater.errors import SetupError, UsageError
from headwater.errors.catalogue.environment import RUN_DIR_UNWRITABLE
from headwater.errors.catalogue.programs import DIRECTORY_NOT_EMPTY, TEMPLATE_NOT_FOUND
from headwater.loaders.json_schema import pipeline_schema
from headwater.loaders.yaml_form import YamlFile

WORD_COUNT, KAFKA = KINDS["word-count"], KINDS["kafka"]
FILES, RUN = WORD_COUNT.files, WORD_COUNT.first_command
ODD_NAMES = ["my project", "ünïcode", "2026-11", "it's", "-x", "a&b;c", "${HOME}"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def files_in(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


def test_the_files_are_made_and_named_from_here(tmp_path: Path) -> None:
    result = init(Path("my_project"))
    assert result.files == (
        "my_project/pipeline.yml",
        "my_project/lines/first.txt",
        "my_project/tests/test_pipeline.yml",
        "my_project/README.md",
        "my_project/.gitignore",
    )
    assert files_in(tmp_path) == set(result.files)
    assert result.next_command == "cd my_project && headwater run pipeline.yml --until-idle"


@pytest.mark.parametrize("template", KINDS.values(), ids=KINDS)
def test_no_template_is_left_out(template: Template) -> None:
    assert files_in(Path(str(TEMPLATES / template.folder))) == set(template.files.values())


def test_another_kind_is_made_by_its_name(tmp_path: Path) -> None:
    result = init(Path("ads"), "kafka")
    assert files_in(tmp_path / "ads") == set(KAFKA.files)
    assert result.next_command == f"cd ads && {KAFKA.first_command}"
    file = tmp_path / "ads" / "pipeline.yml"
    assert check(file, offline=True).findings == ()
    # Every command of its page is one of the command line; the data has the lines that the page speaks of.
    lines = (tmp_path / "ads" / "data" / "clicks.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 60
    assert KAFKA.first_command in (tmp_path / "ads" / "README.md").read_text(encoding="utf-8")


def test_an_unknown_kind_is_refused_and_nothing_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        init(Path("ads"), "kafk")
    assert caught.value.problems == (
        TEMPLATE_NOT_FOUND.at(
            None, name="kafk", hint="Did you mean `kafka`? ", known="word-count, kafka, postgres"
        ),
    )
    assert files_in(tmp_path) == set()


@pytest.mark.parametrize(
    ("folder", "shown", "command"),
    [
        (".", "", RUN),
        ("a/b", "a/b", f"cd a/b && {RUN}"),
        ("../beside", "../beside", f"cd ../beside && {RUN}"),
        ("./a/../b", "b", f"cd b && {RUN}"),
        ("my project", "my project", f"cd 'my project' && {RUN}"),
        ("-x", "-x", f"cd ./-x && {RUN}"),
    ],
)
def test_paths_are_shown_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, shown: str, command: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    expected = tuple(os.path.join(shown, name) for name in FILES)
    assert init(Path(folder)) == InitResult(expected, command)


def test_an_absolute_path_is_shown_as_it_is_unless_it_is_below(tmp_path: Path) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    assert init(elsewhere).files[0] == str(elsewhere / "pipeline.yml")
    assert init(tmp_path / "below").files[0] == "below/pipeline.yml"


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    init(Path("empty"))
    assert files_in(tmp_path / "empty") == set(FILES)


@pytest.mark.parametrize(("folder", "path"), [("full", "full"), (".", "."), ("full/file", "full/file")])
def test_what_is_there_is_not_touched(tmp_path: Path, folder: str, path: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        init(Path(folder))
    assert caught.value.problems == (DIRECTORY_NOT_EMPTY.at(None, path=path),)
    assert files_in(tmp_path) == {"full/file"}


def test_a_second_init_is_refused() -> None:
    init(Path("twice"))
    with pytest.raises(UsageError):
        init(Path("twice"))


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError) as caught:
        init(Path("file/project"))
    assert caught.value.problems == (
        RUN_DIR_UNWRITABLE.at(None, path="file/project", reason="Not a directory"),
    )


@pytest.mark.parametrize("name", ["plain", *ODD_NAMES])
def test_the_pipeline_is_right_whatever_the_folder_is_called(tmp_path: Path, name: str) -> None:
    result = init(Path(name))
    assert shlex.split(result.next_command)[1].removeprefix("./") == name
    file = tmp_path / name / "pipeline.yml"
    spec = YamlFile.read(file, environ={}).spec()
    assert (spec.name, [sink.name for sink in spec.sinks]) == ("word_count", ["words", "counts"])
    assert check(file, offline=True).findings == ()


def test_the_pipeline_fits_its_schema() -> None:
    init(Path("p"))
    file = YAML(typ="safe").load(Path("p/pipeline.yml").read_text(encoding="utf-8"))
    Draft202012Validator(pipeline_schema()).validate(file)


def test_the_run_folder_is_ignored_by_git() -> None:
    init(Path("p"))
    assert ".headwater/" in Path("p/.gitignore").read_text(encoding="utf-8").splitlines()


def test_the_json_form() -> None:
    assert InitResult(("a",), "b").to_json() == {"files": ("a",), "next_command": "b"}
