"""Test files found in folders, and tests chosen by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import UsageError
from headwater.testing.discovery import chosen, find_tests, is_test_file

GOOD = "# a test\npipeline: a.yml\ntests:\n  one: [restart]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "test_b.yml", "test_a.yaml", "sub/words_test.yml", "words.yml", "sub/test.yml", "test_x.py",
        ".venv/test_c.yml", ".headwater/test_c.yml", "node_modules/p/test_c.yml", "__pycache__/test_c.yml",
        ".hidden/test_c.yml",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    (tmp_path / "test_other.yml").write_text("pipeline: of another tool\n", encoding="utf-8")
    (tmp_path / "test_inner.yml").write_text("x: {pipeline: a}\n  tests: 1\n", encoding="utf-8")
    return tmp_path


def names(paths: list[Path], folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in paths]


def test_folders_are_searched_for_files_that_look_like_tests(folder: Path) -> None:
    assert names(find_tests([folder]), folder) == ["sub/words_test.yml", "test_a.yaml", "test_b.yml"]


def test_files_are_taken_as_they_are_given_and_each_once(folder: Path) -> None:
    given = [folder / "words.yml", folder / "test_b.yml", folder / "sub" / ".." / "test_b.yml", folder]
    assert names(find_tests(given), folder) == [
        "words.yml",
        "test_b.yml",
        "sub/words_test.yml",
        "test_a.yaml",
    ]


def test_a_hidden_folder_that_is_named_is_searched(folder: Path) -> None:
    assert names(find_tests([folder / ".hidden"]), folder) == [".hidden/test_c.yml"]


def test_paths_that_are_not_there_are_all_told(folder: Path) -> None:
    with pytest.raises(UsageError) as error:
        find_tests([folder / "test_bb.yml", folder, folder / "no" / "test.yml"])
    first, second = error.value.problems
    assert (first.code, first.params["hint"]) == (
        "HW-TEST-PATH-NOT-FOUND",
        f"Did you mean {folder / 'test_b.yml'}?",
    )
    assert (second.code, second.params["path"]) == ("HW-TEST-PATH-NOT-FOUND", str(folder / "no" / "test.yml"))


def test_a_broken_link_is_no_test(tmp_path: Path) -> None:
    (tmp_path / "test_gone.yml").symlink_to(tmp_path / "nothing")
    assert not is_test_file(tmp_path / "test_gone.yml")


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ("late", ["late rows", "LATE crash"]),
        ("late rows", ["late rows"]),
        ("'late  rows'", []),
        ('"rows" or crash', ["late rows", "LATE crash"]),
        ("late and not crash", ["late rows"]),
        ("not late", ["windows and more"]),
        ("not (rows or crash)", ["windows and more"]),
        ("not not late and rows", ["late rows"]),
        ("rows or windows and more", ["late rows", "windows and more"]),
        ("(rows or windows) AND more", ["windows and more"]),
        ("'windows and more'", ["windows and more"]),
        ("nothing", []),
    ],
)
def test_names_are_chosen_by_an_expression(expression: str, fits: list[str]) -> None:
    every = ["late  rows", "LATE crash", "windows and more"]
    assert [" ".join(name.split()) for name in every if chosen(expression)(name)] == fits


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("", "it is empty"),
        ("late and", "a word is missing at the end"),
        ("or late", "a word is missing before `or`"),
        ("(late", "a `)` is missing"),
        ("late)", "unexpected `)`"),
        ("()", "a word is missing before `)`"),
        ("late (rows)", "unexpected `(`"),
        ("late not rows", "unexpected `not`"),
    ],
)
def test_expressions_that_make_no_sense(expression: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        chosen(expression)
    [problem] = error.value.problems
    assert (problem.code, problem.params) == (
        "HW-TEST-SELECTION-INVALID",
        {"expression": expression, "says": says},
    )
