"""How an executor recognizes a path of the driver: both halves of the probe, with no cluster in between."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.engine import probe_task
from headwater.engine.probe_task import Answer, Question, answer
from headwater.engine.shared_paths import LocalPath, PathProbe


def asked(
    path: Path,
    meanwhile: Callable[[PathProbe], None] = lambda probe: None,
    afterwards: Callable[[Path], None] = lambda path: None,
    *,
    writes: bool = False,
    created: bool = False,
) -> list[str]:
    """What is said against a path that something happens to before an executor looks, and after."""
    local = LocalPath(str(path), "Something uses", "`path`", None, writes=writes, created=created)
    with PathProbe.placed([local]) as probe:
        meanwhile(probe)
        answers = answer(probe.questions, ())
        afterwards(path)
        return [finding.message for finding in probe.findings(answers)]


def test_the_same_directory(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("{}")
    assert asked(tmp_path) == asked(tmp_path, writes=True) == []
    assert os.listdir(tmp_path) == ["1.json"]


def test_a_directory_without_the_probe_is_another_one(tmp_path: Path) -> None:
    """As on a machine that has a directory of the same name."""

    def replace(probe: PathProbe) -> None:
        os.remove(tmp_path / probe.questions[0].probe)

    (said,) = asked(tmp_path, replace)
    assert "a different directory of the same name" in said
    assert os.listdir(tmp_path) == []


def test_what_a_start_would_create_is_there_only_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "checkpoints" / "orders"
    seen: list[bool] = []
    assert asked(path, lambda probe: seen.append(path.is_dir()), writes=True, created=True) == []
    assert seen == [True]
    assert os.listdir(tmp_path) == []


def test_what_came_into_such_a_directory_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert asked(path, lambda probe: (path / "part").touch(), writes=True, created=True) == []
    assert os.listdir(path) == ["part"]


def test_the_files_of_executors_go_when_the_probe_fails(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        assert len(os.listdir(path)) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(tmp_path, afterwards=fail, writes=True)
    assert os.listdir(tmp_path) == []


def test_files_that_the_driver_does_not_see(tmp_path: Path) -> None:
    def take_away(path: Path) -> None:
        for name in os.listdir(path):
            if name.count(".") > 1:
                os.remove(path / name)

    (said,) = asked(tmp_path, afterwards=take_away, writes=True)
    assert "(the driver does not see the files that it creates there)" in said


def test_a_file_is_recognized_by_its_size_and_time(tmp_path: Path) -> None:
    file = tmp_path / "ads.csv"
    file.write_text("a,b")
    os.utime(file, (1_000, 1_000))
    assert asked(file) == []
    assert os.listdir(tmp_path) == ["ads.csv"]
    question = Question(str(file), "", {"": (3, 2_000)}, writes=False)
    assert _reason([question]) == "a different file of the same name"
    assert _reason([question._replace(path=str(tmp_path / "others.csv"))]) == "no such file"


def test_a_file_that_is_replaced_meanwhile_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "ads.csv"
    file.write_text("a,b")
    assert asked(file, lambda probe: os.truncate(file, 1)) == []


def test_a_directory_that_the_driver_can_not_write(tmp_path: Path) -> None:
    read_only = Path("/proc/self/net" if os.path.isdir("/proc/self/net") else "/dev")
    local = LocalPath(str(read_only), "Something uses", "`path`", None)
    with PathProbe.placed([local]) as probe:
        (question,) = probe.questions
        assert question.probe == ""
        assert question.marks
        # A directory of the same name elsewhere has none of its files.
        elsewhere = question._replace(path=str(tmp_path))
        assert _reason([elsewhere]) == "a different directory of the same name"
        (finding,) = probe.findings(answer([elsewhere], ()))
        assert "a different directory of the same name" in finding.message


def test_a_directory_that_the_driver_can_not_create() -> None:
    """The driver's own failure will be reported as that."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("there is no directory in which nobody can create another one")
    assert asked(Path("/proc/runs/checkpoints"), writes=True, created=True) == []


def test_an_empty_directory_is_recognized_by_its_time(tmp_path: Path) -> None:
    question = Question(str(tmp_path), "", {"": probe_task.own_mark(str(tmp_path))}, writes=False)
    assert answer([question], ())[0][1] == [(None, "", "")]
    os.utime(tmp_path, (1_000, 1_000))
    assert _reason([question]) == "a different directory of the same name"


def test_only_some_of_many_hosts_are_named(tmp_path: Path) -> None:
    local = LocalPath(str(tmp_path), "The sink `out` writes to", "`path`", None, writes=True, sink="out")
    with PathProbe.placed([local]) as probe:
        away: list[Answer] = [((f"host-{number}", 1), [(("gone", ()), "", "")]) for number in range(7)]
        (finding,) = probe.findings(away)
    assert finding.code == "HW-PATH-NOT-SHARED"
    assert finding.sink == "out"
    assert finding.message.endswith("host-3 (gone), host-4 (gone), and 2 more.")


@pytest.mark.parametrize(
    ("written", "default", "on_disk"),
    [
        ("/data/in", "file:///", True),
        ("/data/in", "hdfs://name:8020", False),
        ("file:/data/in", "hdfs://name:8020", True),
        ("s3a://bucket/in", "file:///", False),
    ],
)
def test_what_is_on_a_disk(written: str, default: str, on_disk: bool) -> None:
    local = LocalPath(written, "", "", None)
    assert local.is_on_disk(default) is on_disk


def test_executors_need_nothing_but_python() -> None:
    tree = ast.parse(Path(probe_task.__file__).read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def _reason(questions: list[Question]) -> str:
    ((_, replies),) = answer(questions, ())
    ((unshared, _, _),) = replies
    assert unshared is not None
    return unshared[0]


def test_a_path_that_the_driver_cannot_look_at_is_no_error_of_the_probe(tmp_path: Path) -> None:
    """As below a directory of another user's; a name that is too long fails for root, too."""
    assert asked(tmp_path / ("x" * 300) / "orders", created=True, writes=True) == []
    assert os.listdir(tmp_path) == []
