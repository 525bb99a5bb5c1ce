"""Headwater's jar: the same sources give the same bytes, and its file system behaves as Hadoop's."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headwater.spark.local_files import CLASSES, JAR
from scripts import jar

ROOT = Path(__file__).parents[2]
OWN, HADOOP = "headwater.files", "org.apache.hadoop.fs"
NOT_FOUND = r"java\.io\.FileNotFoundException: File .*missing does not exist"


def test_the_same_sources_give_the_same_bytes() -> None:
    assert jar.archive(jar.classes(ROOT)) == JAR.read_bytes()


def file_systems(context: SparkContext) -> dict[str, Any]:
    """Headwater's file system and Hadoop's, through the two interfaces of Hadoop's."""
    jvm: Any = context._jvm
    fs, made = jvm.org.apache.hadoop.fs, {}
    plain = jvm.org.apache.hadoop.conf.Configuration()
    for name, system in (("own", jvm.headwater.files.LocalFiles()), ("hadoop", fs.LocalFileSystem())):
        system.initialize(jvm.java.net.URI("file:///"), plain)
        made[name] = system
    return made


def shown(status: Any) -> tuple[object, ...]:
    return (
        str(status.getPath()),
        status.getLen(),
        status.isDirectory(),
        status.getModificationTime(),
        str(status.getPermission()),
        status.getOwner(),
        status.getGroup(),
        status.isSymlink(),
    )


def test_the_session_uses_the_classes_for_both_interfaces(context: SparkContext) -> None:
    jsc, jvm = context._jsc, context._jvm
    assert jsc is not None
    assert jvm is not None
    conf = jsc.hadoopConfiguration()
    uri = jvm.java.net.URI("file:///")
    own, of_context = CLASSES.values()
    assert jvm.org.apache.hadoop.fs.FileSystem.get(uri, conf).getClass().getName() == own
    files = jvm.org.apache.hadoop.fs.FileContext.getFileContext(uri, conf)
    assert files.getDefaultFileSystem().getClass().getName() == of_context


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o1777])
def test_permissions_are_those_that_were_asked_for(context: SparkContext, tmp_path: Path, mode: int) -> None:
    jvm: Any = context._jvm
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:o}")
    modes = {}
    for name, system in file_systems(context).items():
        file = tmp_path / name
        file.write_text("x")
        system.setPermission(jvm.org.apache.hadoop.fs.Path(str(file)), permission)
        modes[name] = stat.S_IMODE(file.stat().st_mode)
    assert modes == {"own": mode, "hadoop": mode}


def test_what_is_written_and_listed_is_the_same(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    path = jvm.org.apache.hadoop.fs.Path
    found: dict[str, tuple[list[Path], list[int], list[bytes]]] = {}
    before = os.umask(0o027)
    try:
        for name, system in file_systems(context).items():
            folder = tmp_path / name
            out = system.create(path(str(folder / "a" / "file")))
            out.write(bytearray(b"content"))
            out.close()
            made = sorted(each.relative_to(folder) for each in folder.rglob("*"))
            modes = [stat.S_IMODE((folder / each).stat().st_mode) for each in made]
            content = [(folder / each).read_bytes() for each in made if (folder / each).is_file()]
            found[name] = (made, modes, content)
    finally:
        os.umask(before)
    assert found["own"] == found["hadoop"]
    assert len(found["own"][0]) == 3  # the directory, the file and its checksums
    own, hadoop = file_systems(context).values()
    for each in ("own", "own/a", "own/a/file"):
        place = path(str(tmp_path / each))
        assert shown(own.getFileStatus(place)) == shown(hadoop.getFileStatus(place))
        assert [shown(one) for one in own.listStatus(place)] == [
            shown(one) for one in hadoop.listStatus(place)
        ]


# Java has no path for the second name, as for a name that the locale cannot encode.
@pytest.mark.parametrize("name", ["missing", "\0missing"], ids=["plain", "invalid"])
def test_a_missing_file_is_reported_as_hadoop_does(context: SparkContext, tmp_path: Path, name: str) -> None:
    jvm: Any = context._jvm
    place = jvm.org.apache.hadoop.fs.Path(str(tmp_path / name))
    for system in file_systems(context).values():
        assert not system.exists(place)
        for ask in (system.getFileStatus, system.listStatus):
            with pytest.raises(Exception, match=NOT_FOUND):
                ask(place)
    with pytest.raises(Exception, match=NOT_FOUND):
        file_systems(context)["own"].getFileLinkStatus(place)


def test_a_link_is_a_link_and_its_target(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    (tmp_path / "target").write_text("12345")
    (tmp_path / "link").symlink_to("target")
    raw = file_systems(context)["own"].getRaw()
    place = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "link"))
    assert raw.getFileStatus(place).getLen() == 5
    link = raw.getFileLinkStatus(place)
    assert link.isSymlink()
    assert str(link.getSymlink()) == f"file:{tmp_path}/target"
    assert not raw.getFileLinkStatus(jvm.org.apache.hadoop.fs.Path(str(tmp_path / "target"))).isSymlink()


def test_a_status_survives_java_serialization(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    (tmp_path / "file").write_text("1")
    status = file_systems(context)["own"].getFileStatus(jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file")))
    copy = jvm.org.apache.commons.lang3.SerializationUtils.clone(status)
    assert shown(copy) == shown(status)
    assert copy.getClass().getName() == "org.apache.hadoop.fs.FileStatus"


def test_what_leads_nowhere_does_not_exist_as_in_hadoop(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    path = jvm.org.apache.hadoop.fs.Path
    (tmp_path / "file").write_text("1")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    found = {}
    for name, system in file_systems(context).items():
        exists = [system.exists(path(str(tmp_path / each))) for each in ("loop", "dangling", "file/below")]
        found[name] = (
            exists,
            [str(each.getPath().getName()) for each in system.listStatus(path(str(tmp_path)))],
        )
    assert found["own"] == found["hadoop"] == ([False, False, False], ["file"])
