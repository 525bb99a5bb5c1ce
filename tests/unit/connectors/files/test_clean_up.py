"""When a finished file may go, seen on checkpoints written by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headwater.connectors.contract import QueryCheckpoint, Tick
from headwater.connectors.files.clean_up import FinishedFiles, move
from headwater.errors import CheckpointError
from headwater.spec import CleanUp

MADE = 1_700_000_000


def test_a_move_replaces_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    target = tmp_path / "done" / "x.json"
    for text in ("one", "two", "three"):
        (tmp_path / "x.json").write_text(text)
        move(tmp_path / "x.json", target)
    assert {file.name: file.read_text() for file in (tmp_path / "done").iterdir()} == {
        "x.json": "one",
        "x.2.json": "two",
        "x.3.json": "three",
    }
    # As after a kill between the two steps of a move: the file has both names.
    os.link(target, tmp_path / "x.json")
    move(tmp_path / "x.json", target)
    assert not (tmp_path / "x.json").exists()
    assert len(list((tmp_path / "done").iterdir())) == 3


class Query:
    """A checkpoint of a query over files, batch by batch."""

    def __init__(self, folder: Path, name: str, *places: str) -> None:
        self.folder = folder / name
        self.reader = QueryCheckpoint(name, self.folder, places)
        self.batch = -1

    def plan(self, *sources: tuple[int, list[Path]]) -> None:
        """A batch that reads these files: for each source its own batch and the files."""
        self.batch += 1
        for source, (batch, files) in enumerate(sources):
            stamp = MADE * 1000
            lines = [
                json.dumps({"path": file.as_uri(), "timestamp": stamp, "batchId": batch}) for file in files
            ]
            if files:
                self._write(f"sources/{source}/{batch}", *lines)
        offsets = [json.dumps({"logOffset": batch}) if batch >= 0 else "-" for batch, _ in sources]
        self._write(f"offsets/{self.batch}", "{}", *offsets)

    def commit(self) -> None:
        self._write(f"commits/{self.batch}", "{}")

    def _write(self, name: str, *lines: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(("v1", *lines)))


def made(folder: Path, *names: str) -> list[Path]:
    files = [folder / name for name in names]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
        os.utime(file, (MADE, MADE))
    return files


def task(folder: Path, *queries: Query, archive: str | None = None, place: str = "in") -> FinishedFiles:
    readers = [query.reader for query in queries]
    return FinishedFiles("lines", CleanUp(archive), folder / "in", [str(folder / place)], readers)


ALL = Tick(frozenset({"a", "b"}))


def test_a_file_goes_when_the_last_query_has_committed_it(tmp_path: Path) -> None:
    one, two = made(tmp_path / "in", "1", "2")
    a, b = (Query(tmp_path, name, str(tmp_path / "in")) for name in "ab")
    clean_up = task(tmp_path, a, b)
    a.plan((0, [one, two]))
    a.commit()
    clean_up.tick(ALL)
    b.plan((0, [one]))
    clean_up.tick(ALL)
    assert one.exists()
    b.commit()
    clean_up.tick(ALL)
    assert (one.exists(), two.exists()) == (False, True)
    b.plan((1, [two]))
    b.commit()
    clean_up.tick(Tick(ALL.committed, last=True, healthy=False))
    assert two.exists()
    # A new start knows nothing of the one before, and goes on.
    task(tmp_path, a, b).tick(ALL)
    assert not two.exists()


def test_every_source_of_a_query_that_reads_there_counts(tmp_path: Path) -> None:
    (one,) = made(tmp_path / "in", "1")
    a = Query(tmp_path, "a", str(tmp_path / "in"), str(tmp_path / "in"))
    clean_up = task(tmp_path, a)
    # The second source listed the folder before the file came.
    a.plan((0, [one]), (-1, []))
    a.commit()
    clean_up.tick(ALL)
    assert one.exists()
    a.plan((0, []), (0, [one]))
    a.commit()
    clean_up.tick(ALL)
    assert not one.exists()


def test_a_query_that_reads_elsewhere_is_not_waited_for(tmp_path: Path) -> None:
    (one,) = made(tmp_path / "in", "1")
    a, b = Query(tmp_path, "a", str(tmp_path / "in")), Query(tmp_path, "b", str(tmp_path / "other"))
    a.plan((0, [one]))
    a.commit()
    task(tmp_path, a, b).tick(ALL)
    assert not one.exists()


def test_what_was_written_again_stays_and_a_failure_is_told(tmp_path: Path) -> None:
    one, two = made(tmp_path / "in", "1", "day=1/2")
    a = Query(tmp_path, "a", str(tmp_path / "in"))
    a.plan((0, [one, two]))
    a.commit()
    os.utime(one, (MADE + 1, MADE + 1))
    (tmp_path / "done").write_text("not a folder")
    clean_up = task(tmp_path, a, archive=str(tmp_path / "done"))
    with pytest.raises(CheckpointError) as told:
        clean_up.tick(ALL)
    assert [problem.code for problem in told.value.problems] == [
        "HW-CLEAN-UP-FILE-CHANGED",
        "HW-CLEAN-UP-FAILED",
    ]
    (tmp_path / "done").unlink()
    with pytest.raises(CheckpointError):
        clean_up.tick(ALL)
    assert one.exists()
    assert (tmp_path / "done" / "day=1" / "2").read_text() == "x"


def test_a_file_below_an_ignored_directory_stays(tmp_path: Path) -> None:
    one, two = made(tmp_path / "in", "1", "sub/2")
    a = Query(tmp_path, "a", str(tmp_path / "in"))
    a.plan((0, [one, two]))
    a.commit()
    task(tmp_path, a).tick(ALL)
    assert (one.exists(), two.exists()) == (False, True)
    # A glob reads what is directly in the directories that it matches.
    b = Query(tmp_path, "b", f"{tmp_path}/in/*")
    b.plan((0, [two]))
    b.commit()
    task(tmp_path, b, place="in/*").tick(ALL)
    assert not two.exists()


@pytest.mark.parametrize("spelled", ["file://{}/in", "file:{}/in/", "{}/linked", "{}/{{in,out}}", "{}/i*"])
def test_a_folder_that_another_query_names_differently_is_one_folder(tmp_path: Path, spelled: str) -> None:
    (one,) = made(tmp_path / "in", "day=1/1")
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    place = spelled.format(tmp_path)
    a, b = Query(tmp_path, "a", str(tmp_path / "in")), Query(tmp_path, "b", place)
    a.plan((0, [one]))
    a.commit()
    clean_up = task(tmp_path, a, b)
    clean_up.tick(ALL)
    assert one.exists()
    b.plan((0, [tmp_path / "linked" / "day=1" / "1" if "linked" in place else one]))
    b.commit()
    clean_up.tick(ALL)
    assert not one.exists()


def test_the_archive_keeps_the_folders_as_the_user_spells_them(tmp_path: Path) -> None:
    made(tmp_path / "elsewhere", "day=1/1")
    (file,) = made(tmp_path / "more", "2")
    (tmp_path / "in").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "more" / "3").symlink_to(file)
    a = Query(tmp_path, "a", f"{tmp_path}/in", f"{tmp_path}/more/2", f"{tmp_path}/more/3")
    a.plan((0, [tmp_path / "in/day=1/1"]), (0, [tmp_path / "more/2"]), (0, [tmp_path / "more/3"]))
    a.commit()
    places = [f"{tmp_path}/in", f"{tmp_path}/more/3"]
    FinishedFiles("lines", CleanUp(f"{tmp_path}/done"), tmp_path, places, [a.reader]).tick(ALL)
    assert {str(each.relative_to(tmp_path)) for each in (tmp_path / "done").rglob("*") if each.is_file()} == {
        "done/in/day=1/1",
        "done/more/3",
    }
    assert file.exists()


def test_sources_whose_patterns_overlap_are_told_apart(tmp_path: Path) -> None:
    one, two = made(tmp_path / "in", "a/1", "b/2")
    # The second source reads no files, and has its number all the same.
    a = Query(tmp_path, "a", f"{tmp_path}/in/*", "", f"{tmp_path}/in/a")
    clean_up = task(tmp_path, a, place="in/*")
    a.plan((0, [one, two]), (-1, []), (-1, []))
    a.commit()
    clean_up.tick(ALL)
    assert (one.exists(), two.exists()) == (True, False)
    a.plan((0, []), (-1, []), (0, [one]))
    a.commit()
    clean_up.tick(ALL)
    assert not one.exists()
