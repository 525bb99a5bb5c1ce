"""Which folders count, and what lies in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.connectors.files import folders
from headwater.connectors.files.folders import (
    PATH,
    Folders,
    base_of,
    common_base,
    files_at,
    ignored_at,
    local_files,
    look,
    paths_at,
    waiting_at,
)
from headwater.spec import Column
from headwater.values import Secret

COLUMNS = (Column("day", "date"), Column("id", "int"), Column("tags", "array<string>"))


@pytest.mark.parametrize(
    ("path", "base"),
    [
        ("/p/in", "/p/in"),
        ("/p/in/*/x", "/p/in"),
        ("/p/in/Day=1", "/p/in"),
        ("/p/in/other=1", "/p/in/other=1"),
        ("/p/in/{eu,us}", "/p/in"),
        ("file:///data/in/{eu,us/x}/day=1", "file:///data/in"),
        ("/p/in/day=[12]/n=1", "/p/in"),
        ("s3a://bucket/logs/day=1", "s3a://bucket/logs"),
    ],
)
def test_the_folder_from_which_keys_count(path: str, base: str) -> None:
    assert base_of(path, "/p", ("day", "id")) == base


@pytest.mark.parametrize(
    ("paths", "base"),
    [
        (["/p/in"], None),
        (["/p/in", "/p/more/x.csv"], None),
        (["/p/in/*"], "/p/in"),
        (["/p/in/*/day=*", "/p/in/old"], "/p/in"),
        (["/p/in/*", "/q/in"], "/"),
        (["s3a://bucket/logs/*", "s3a://bucket/old"], "s3a://bucket"),
        (["s3a://bucket/logs/*", "/p/in"], None),
    ],
)
def test_the_folder_below_which_a_schema_is_inferred(paths: list[str], base: str | None) -> None:
    assert common_base(paths, Path("/p")) == base


def found(folder: Path, *files: str) -> dict[tuple[str, ...], str]:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    examples = look(str(folder), str(folder), local_files)
    return {keys: str(Path(file).relative_to(folder)) for keys, file in examples.items()}


def test_what_lies_below_a_folder(tmp_path: Path) -> None:
    assert found(tmp_path) == {}
    # Spark reads no deeper than the folder where no key is, and passes over what is hidden.
    assert found(tmp_path, "deeper/1", "_tmp/day=1/1", ".x", "_x") == {}
    (tmp_path / "day=1" / "n=2").mkdir(parents=True)
    assert found(tmp_path, "1") == {(): "1", ("day", "n"): "day=1/n=2"}
    assert found(tmp_path, "a%20b=1/1")[("a b",)] == "a%20b=1/1"


def test_braces_are_listed(tmp_path: Path) -> None:
    found(tmp_path, "eu/day=1/1", "us/day=2/1", "asia/month=1/1")
    examples = look(f"{tmp_path}/{{eu,us}}/day=*", str(tmp_path), local_files)
    assert examples == {("day",): f"{tmp_path}/eu/day=1/1"}


def test_columns_of_files_and_of_folders() -> None:
    folders = Folders("lines", "/p/in", COLUMNS, ("Day",))
    assert [column.name for column in folders.inside] == ["id", "tags"]
    day, *rest = folders.selected
    assert "/Day=([^/]*)/" in day
    assert rest == ["`id` AS `id`", "`tags` AS `tags`"]
    flat = Folders("lines", "/p/in", COLUMNS, ())
    assert flat.selected[0] == "`day` AS `day`"
    unknown = Folders("lines", "/p/in", COLUMNS, None)
    assert unknown.inside == COLUMNS
    # A file that lies somewhere else altogether stops the query; it is not left out.
    assert unknown.guard.endswith(
        f"THEN false ELSE raise_error(concat('HW-PARTITION-DIR-UNEXPECTED ', r'lines', ' ', {PATH})) END"
    )
    assert unknown.selected[2] == "`tags` AS `tags`"


NONE: dict[str, int | None] = {"max_files_per_batch": None, "max_bytes_per_batch": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files that are read, of 3 bytes each, and some that are not."""
    for name in (
        "a.txt",
        "day=1/b.txt",
        "day=1/hour=2/c.txt",
        "_hidden.txt",
        ".part",
        "deeper/d.txt",
        "_log/e",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("abc", encoding="utf-8")
    return tmp_path


def test_only_what_spark_reads_is_counted(folder: Path) -> None:
    found = waiting_at((str(folder),), NONE, {})
    assert found
    assert (found.files, found.bytes, found.more, found.limit, found.batches) == (3, 9, False, "", 1)


def test_patterns_and_several_paths(folder: Path) -> None:
    found = waiting_at((f"{folder}/day=*", f"{folder}/*.txt"), {**NONE, "max_files_per_batch": 1}, {})
    assert found
    # The hidden file is none, and of two paths the fuller one decides.
    assert (found.files, found.limit, found.at_most, found.batches) == (3, "max_files_per_batch", 1, 2)


def test_limits_by_bytes_and_by_options_of_spark(folder: Path) -> None:
    paths = (str(folder),)
    by_bytes = waiting_at(paths, {**NONE, "max_bytes_per_batch": 4}, {})
    assert by_bytes
    assert (by_bytes.limit, by_bytes.batches) == ("max_bytes_per_batch", 3)
    by_option = waiting_at(paths, NONE, {"MaxFilesPerTrigger": "2"})
    assert by_option
    assert (by_option.limit, by_option.batches) == ("max_files_per_batch", 2)
    for strange in ("x", "0", Secret("${secret:X}")):
        found = waiting_at(paths, NONE, {"maxFilesPerTrigger": strange})
        assert found
        assert found.limit == ""


def test_a_very_full_folder_is_not_counted_to_its_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MOST", 2)
    found = waiting_at((str(folder),), NONE, {})
    assert found
    assert (found.files, found.bytes, found.more) == (2, 6, True)


def test_what_is_elsewhere_or_not_there(tmp_path: Path) -> None:
    assert waiting_at(("s3a://bucket/in",), NONE, {}) is None
    found = waiting_at((f"{tmp_path}/none/*",), NONE, {})
    assert found
    assert (found.files, found.batches) == (0, 1)


def test_links_that_lead_nowhere_are_not_listed_and_hide_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    (tmp_path / "linked").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "archive").mkdir()
    assert sorted(paths_at(str(tmp_path))) == [f"{tmp_path}/file", f"{tmp_path}/linked"]
    assert sorted(path for path, _ in files_at(str(tmp_path))) == [f"{tmp_path}/file", f"{tmp_path}/linked"]
    assert ignored_at([str(tmp_path)]) == (f"{tmp_path}/archive",)
