"""Which new files are shown to Spark, and which are quarantined: looked at with an opener made by hand."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from headwater.checkpoint import LocalStore
from headwater.connectors.contract import Pending, Tick
from headwater.connectors.files import admission as module
from headwater.connectors.files import admission_record as records
from headwater.connectors.files import errors
from headwater.connectors.files.admission import SETTLED_SECONDS, START_SECONDS, Admission, Admissions
from headwater.connectors.files.admission_record import AdmissionRecord, FileStamp, place_of
from headwater.errors import CheckpointError, Problem
from headwater.run_directory import RunDirectory

NOW = 1_700_000_000.0


class Clock:
    """The time, moved by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Shop:
    """A folder of files, of which those that begin with `bad` can't be opened."""

    def __init__(self, root: Path) -> None:
        self.folder, self.kept = root / "in", RunDirectory(root / "run").source("s").admitted(0)
        self.folder.mkdir(parents=True)
        self.clock, self.opened = Clock(), list[str]()

    def admission(self, only: str = "", finished: frozenset[str] = frozenset()) -> Admission:
        record = AdmissionRecord(self.kept, str(self.folder))
        record.begin()
        return Admission(
            "s",
            str(self.folder),
            record,
            self._open,
            _stand_in,
            only=only,
            finished=lambda: finished,
            clock=self.clock,
        )

    def put(self, name: str, text: str = "good", age: float = 60.0) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (self.clock.now - age, self.clock.now - age))
        return file

    def listed(self) -> list[str]:
        """What Spark is shown, with placeholders last."""
        version, *lines = (self.kept / "_spark_metadata" / "0").read_text().split("\n")
        assert version == "v1"
        paths = [json.loads(line)["path"] for line in lines]
        return sorted(paths, key=lambda path: "/rejected/" in path)

    def rejected(self) -> list[dict[str, str]]:
        return [json.loads(file.read_text()) for file in sorted((self.kept / "rejected").glob("*.bad"))]

    def _open(self, files: list[str]) -> dict[str, str]:
        self.opened += files
        return {file: "broken" for file in files if Path(file).read_text().startswith("bad")}


def _stand_in(target: Path, says: Mapping[str, str]) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    file = target.with_suffix(".bad")
    file.write_text(json.dumps(says))
    return file


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_good_files_are_listed_and_bad_ones_have_one_stand_in_each(shop: Shop) -> None:
    good, bad = shop.put("day=1/a ü.x"), shop.put("b.x", "bad")
    shop.put("_hidden"), shop.put("other/c.x")
    shop.admission().start()
    first, second = shop.listed()
    assert first == f"file://{str(good).replace(' ', '%20')}"
    assert second.startswith(f"file://{shop.kept}/rejected/")
    assert shop.rejected() == [{"file": str(bad), "reason": "unreadable_file", "detail": "broken"}]
    # A second start opens nothing again and shows the same.
    shop.opened.clear()
    shop.admission().start()
    assert (shop.opened, shop.listed()) == ([], [first, second])


def test_a_file_that_is_being_written_is_opened_again_until_it_is_whole(shop: Shop) -> None:
    admission = shop.admission()
    admission.start()
    shop.put("a.x", "bad", age=1)
    admission.catch_up()
    assert (admission.waits, shop.listed()) == (True, [])
    file = shop.put("a.x", "good now", age=0)
    admission.catch_up()
    assert (admission.waits, shop.listed()) == (False, [f"file://{file}"])
    shop.put("b.x", "bad", age=1)
    admission.catch_up()
    shop.clock.now += SETTLED_SECONDS
    admission.catch_up()
    assert (admission.waits, len(shop.rejected())) == (False, 1)


def test_a_start_waits_for_a_file_that_may_be_being_written(shop: Shop) -> None:
    shop.put("a.x", "bad", age=0)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        shop.clock.now += 1

    said: list[Problem] = []
    shop.admission().start(said.append, pause=pause)
    assert (len(pauses), len(shop.rejected())) == (int(SETTLED_SECONDS), 1)
    assert [each.message for each in said] == [
        f"s: waiting for {shop.folder}/a.x, which is not readable yet and keeps changing."
    ]


def test_a_start_does_not_wait_for_ever_and_can_be_ended(shop: Shop) -> None:
    good, growing = shop.put("a.x"), shop.put("b.x", "bad", age=0)
    said, asked = list[Problem](), list[int]()

    def pause(seconds: float) -> None:
        shop.clock.now += 1
        shop.put("b.x", "bad" * int(shop.clock.now - NOW), age=0)

    admission = shop.admission()
    admission.start(said.append, lambda: asked.append(1), pause=pause)
    assert (len(asked), shop.listed(), shop.rejected()) == (int(START_SECONDS), [f"file://{good}"], [])
    assert [(each.code, each.params) for each in said[1:]] == [
        ("HW-FILES-DEFERRED", {"name": "s", "files": str(growing)})
    ]
    growing.write_text("good at last")
    admission.catch_up()
    assert shop.listed() == [f"file://{good}", f"file://{growing}"]

    def stop() -> None:
        raise InterruptedError

    shop.put("c.x", "bad", age=0)
    with pytest.raises(InterruptedError):
        shop.admission().start(said.append, stop, pause=pause)


def test_a_start_counts_the_files_that_it_opens_and_can_be_ended_between_two_hundred(shop: Shop) -> None:
    for number in range(450):
        shop.put(f"{number}.x")
    counts: list[tuple[int, int]] = []
    asked: list[int] = []
    shop.admission().start(
        check_cancelled=lambda: asked.append(len(shop.opened)),
        counted=lambda done, total: counts.append((done, total)),
    )
    assert counts == [(0, 450), (200, 450), (400, 450)]
    assert asked == [200, 400]
    assert len(shop.listed()) == 450


def test_a_file_that_may_not_be_read_is_not_condemned(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    good, closed = shop.put("a.x"), shop.put("b.x", "bad")
    admission = shop.admission()
    denied = PermissionError(errno.EACCES, "Permission denied", str(closed))
    monkeypatch.setattr(module, "_closed", lambda path: denied if path == str(closed) else None)
    with pytest.raises(CheckpointError) as refused:
        admission.start()
    (problem,) = refused.value.problems
    assert problem.code == "HW-FILES-VALIDATION-FAILED"
    assert problem.params == {"name": "s", "says": f"Permission denied ({closed})"}
    assert (shop.listed(), shop.rejected()) == ([f"file://{good}"], [])
    monkeypatch.undo()
    admission.catch_up()
    assert len(shop.rejected()) == 1


def test_what_keeps_files_from_being_decided_on_is_told_when_it_lasts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = shop.admission()
    both = Admissions([admission])
    admission.start()
    growing = shop.put("a.x", "bad", age=0)
    assert both.pending() == Pending(0, undecided=True)
    shop.clock.now += START_SECONDS
    shop.put("a.x", "bad still", age=0)
    pending = both.pending()
    problem = pending.blocked_by
    assert pending.undecided
    assert problem is not None
    assert problem.code == "HW-FILES-UNREADABLE"
    assert problem.params == {"name": "s", "says": f"{growing} (still changing)"}
    shop.put("a.x", "good", age=0)
    assert both.pending() == Pending(1)

    closed = shop.put("b.x", "bad")
    denied = PermissionError(errno.EACCES, "Permission denied", str(closed))
    monkeypatch.setattr(module, "_closed", lambda path: denied)
    told = []
    for seconds in (0.0, START_SECONDS - 1, 1.0):
        shop.clock.now += seconds
        pending = both.pending()
        assert pending.undecided
        told.append(pending.blocked_by)
    assert [each and each.params["says"] for each in told] == [None, None, f"Permission denied ({closed})"]
    monkeypatch.undo()
    assert both.pending() == Pending(2)


def test_an_admitted_file_that_is_damaged_before_all_have_read_it_is_looked_at_anew(shop: Shop) -> None:
    kept, cut, read = shop.put("a.x"), shop.put("b.x"), shop.put("c.x")
    shop.admission().start()
    shop.opened.clear()
    shop.put("b.x", "bad now"), shop.put("c.x", "bad now")
    shop.admission(finished=frozenset([str(read)])).start()
    assert shop.opened == [str(cut)]
    assert [each["file"] for each in shop.rejected()] == [str(cut)]
    # Spark is not shown what every query has read.
    assert shop.listed()[:-1] == [f"file://{kept}"]


def test_what_can_not_be_read_is_found_by_reading_it(tmp_path: Path) -> None:
    assert isinstance(module._closed(str(tmp_path)), IsADirectoryError)
    (tmp_path / "a").write_text("x")
    assert module._closed(str(tmp_path / "a")) is None


def test_a_mended_file_is_admitted_and_its_stand_in_stays(shop: Shop) -> None:
    shop.put("a.x", "bad")
    admission = shop.admission()
    admission.start()
    mended = shop.put("a.x", "good again")
    admission.catch_up()
    assert len(shop.listed()) == 2
    assert f"file://{mended}" in shop.listed()


def test_a_file_that_went_is_not_listed_any_more(shop: Shop) -> None:
    file, stays = shop.put("a.x"), shop.put("b.x")
    admission = shop.admission()
    admission.start()
    file.unlink()
    admission.catch_up()
    assert shop.listed() == [f"file://{stays}"]


def test_what_a_kill_left_unlisted_is_listed_by_the_next_start(shop: Shop) -> None:
    file = shop.put("a.x")
    shop.admission().start()
    (shop.kept / "_spark_metadata" / "0").write_text("v1")
    shop.admission().start()
    assert shop.listed() == [f"file://{file}"]


def test_only_names_that_the_user_asked_for_are_opened(shop: Shop) -> None:
    shop.put("a.csv"), shop.put("notes.txt", "bad")
    shop.admission(only="*.{csv,tsv}").start()
    assert ([Path(file).name for file in shop.opened], shop.rejected()) == (["a.csv"], [])


def test_changes_are_counted_and_the_last_call_does_nothing(shop: Shop) -> None:
    admission = shop.admission()
    admission.start()
    both = Admissions([admission])
    assert both.pending() == Pending(0)
    shop.put("a.x")
    both.tick(Tick(frozenset(), last=True))
    assert shop.listed() == []
    both.tick(Tick(frozenset()))
    assert len(shop.listed()) == 1
    assert both.pending() == Pending(1)


def test_the_place_of_an_admission_is_what_it_is_about(shop: Shop, tmp_path: Path) -> None:
    shop.admission()
    assert place_of(str(shop.kept)) == str(shop.folder)
    assert place_of(str(shop.folder)) == str(shop.folder)


def test_a_look_costs_what_is_new(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        shop.put(f"{number}.x")
    shop.put("worse.x", "bad")
    admission = shop.admission()
    admission.start()
    formatted, line = list[str](), records._line

    def noted(path: str, stamp: FileStamp) -> str:
        formatted.append(path)
        return line(path, stamp)

    monkeypatch.setattr(records, "_line", noted)
    new = shop.put("new.x")
    stamps, stamps_of = list[list[str]](), admission._stamps

    def asked(paths: Iterable[str]) -> dict[str, FileStamp]:
        stamps.append(sorted(paths))
        return stamps_of(stamps[-1])

    monkeypatch.setattr(admission, "_stamps", asked)
    before = (shop.kept / "files.jsonl").read_text()
    admission.catch_up()
    # Admitted files are listed by name only, and one line is added to the record and to the list.
    assert stamps == [[str(new), str(shop.folder / "worse.x")]]
    assert formatted == [str(new)]
    added = {"file": str(new), "size": 4, "modified_ms": int(NOW - 60) * 1000}
    assert (shop.kept / "files.jsonl").read_text() == before + json.dumps(added) + "\n"
    assert (len(shop.listed()), shop.listed().count(f"file://{new}")) == (52, 1)
    # What is stored is what a new start reads.
    record = AdmissionRecord(shop.kept, "")
    record.read()
    assert (record.admitted, record.rejected) == (admission.record.admitted, admission.record.rejected)
    assert record.unread == admission.record.unread
    (shop.folder / "7.x").unlink()
    admission.catch_up()
    assert len(shop.listed()) == 51


def test_spark_is_not_shown_what_every_query_has_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SPARE", 2)
    old, bad = shop.put("old.x"), shop.put("bad.x", "bad")
    shop.admission().start()
    (_, placeholder) = shop.listed()
    # A start leaves out what was read before it, and nothing is opened again.
    shop.opened.clear()
    finished = {str(old)}
    admission = shop.admission()
    admission.finished = lambda: frozenset(finished)
    admission.start()
    assert (shop.listed(), shop.opened) == ([placeholder], [])
    # A run looks again when the list has grown.
    first = shop.put("1.x")
    admission.catch_up()
    finished |= {placeholder.removeprefix("file://"), str(first)}
    shop.put("2.x")
    admission.catch_up()
    assert len(shop.listed()) == 3
    rest = [shop.put(f"{number}.x") for number in (3, 4)]
    admission.catch_up()
    assert sorted(shop.listed()) == [f"file://{file}" for file in (shop.folder / "2.x", *rest)]
    # A query that starts from scratch reads everything, also the placeholder of a file that is gone.
    bad.unlink()
    shop.opened.clear()
    shop.admission().start()
    assert len(shop.listed()) == 6
    assert placeholder in shop.listed()
    assert shop.opened == []


def test_without_a_readable_checkpoint_every_file_is_listed(shop: Shop) -> None:
    file = shop.put("a.x")
    admission = shop.admission()
    problem = CheckpointError(errors.FILES_VALIDATION_FAILED.at(None, name="s", says="damaged"))

    def damaged() -> frozenset[str]:
        raise problem

    admission.finished = damaged
    admission.start()
    assert shop.listed() == [f"file://{file}"]


def test_results_that_could_not_be_written_are_written_by_the_next_look(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = shop.admission()
    admission.start()
    file = shop.put("a.x")

    def full(store: LocalStore, name: str, size: int, data: bytes) -> None:
        with (store.root / name).open("ab") as out:
            out.write(data[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LocalStore, "append", full)
    with pytest.raises(CheckpointError):
        admission.catch_up()
    monkeypatch.undo()
    admission.catch_up()
    assert (shop.opened, shop.listed()) == ([str(file)], [f"file://{file}"])
    record = AdmissionRecord(shop.kept, "")
    record.read()
    assert list(record.admitted) == [str(file)]
