"""Headwater's jar: the same sources give the same bytes, and its file system behaves as Hadoop's."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headwater.spark.local_files import CLASSES, JAR
from scripts import jar

ROOT = Path(__file__).parents[2]
OWN, HADOOP = "headwater.files", "org.apache.hadoop.fs"
NOT_FOUND = r"java\.io\.FileNotFoundException: File .*missing does not exist"


def test_the_same_sources_give_the_same_bytes_in_another_directory(tmp_path: Path) -> None:
    shutil.copytree(ROOT / jar.SOURCES, tmp_path / jar.SOURCES)
    assert jar.archive(jar.classes(tmp_path)) == JAR.read_bytes()


def file_systems(context: SparkContext, **settings: str) -> dict[str, Any]:
    """Headwater's and Hadoop's file system, through Hadoop's older interface."""
    jvm: Any = context._jvm
    fs, made = jvm.org.apache.hadoop.fs, {}
    for name, system in (("own", jvm.headwater.files.LocalFiles()), ("hadoop", fs.LocalFileSystem())):
        system.initialize(jvm.java.net.URI("file:///"), configuration(context, settings))
        made[name] = system
    return made


def file_contexts(context: SparkContext, **settings: str) -> dict[str, Any]:
    """Headwater's and Hadoop's file system, through Hadoop's newer interface."""
    jvm: Any = context._jvm
    made = {}
    classes = {"own": "headwater.files.LocalContext", "hadoop": "org.apache.hadoop.fs.local.LocalFs"}
    for name, kind in classes.items():
        conf = configuration(context, settings | {"fs.AbstractFileSystem.file.impl": kind})
        made[name] = jvm.org.apache.hadoop.fs.FileContext.getFileContext(jvm.java.net.URI("file:///"), conf)
        assert made[name].getDefaultFileSystem().getClass().getName() == kind
    return made


def configuration(context: SparkContext, settings: Mapping[str, str]) -> Any:
    jvm: Any = context._jvm
    conf = jvm.org.apache.hadoop.conf.Configuration()
    for key, value in settings.items():
        conf.set(key, value)
    return conf


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


@pytest.mark.parametrize("mode", [0o644, 0o1777, 0o1770, 0o1644, 0o4755, 0o2750])
@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["directory", "file"])
def test_a_status_has_the_permissions_that_hadoop_reads(
    context: SparkContext, tmp_path: Path, make: Callable[[Path], None], mode: int
) -> None:
    jvm: Any = context._jvm
    make(tmp_path / "made")
    (tmp_path / "made").chmod(mode)
    place = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "made"))
    own, hadoop = (system.getFileStatus(place) for system in file_systems(context).values())
    assert shown(own) == shown(hadoop)
    assert own.getPermission().toShort() == hadoop.getPermission().toShort() == mode & 0o1777
    copy = jvm.org.apache.commons.lang3.SerializationUtils.clone(own)
    assert copy.getPermission().toShort() == mode & 0o1777


def test_a_status_keeps_its_permissions_after_the_file_is_gone(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    (tmp_path / "file").touch(mode=0o600)
    status = file_systems(context)["own"].getFileStatus(jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file")))
    (tmp_path / "file").unlink()
    assert str(status.getPermission()) == "rw-------"


UMASK = "fs.permissions.umask-mode"
Found = tuple[list[Path], list[int], list[bytes]]


def found_in(folder: Path) -> Found:
    """The names, permissions and contents below a directory."""
    made = sorted(each.relative_to(folder) for each in folder.rglob("*"))
    modes = [stat.S_IMODE((folder / each).stat().st_mode) for each in made]
    return made, modes, [(folder / each).read_bytes() for each in made if (folder / each).is_file()]


def test_what_is_written_and_listed_is_the_same(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    path = jvm.org.apache.hadoop.fs.Path
    found: dict[str, Found] = {}
    for name, system in file_systems(context, **{UMASK: "027"}).items():
        folder = tmp_path / name
        out = system.create(path(str(folder / "a" / "file")))
        out.write(bytearray(b"content"))
        out.close()
        found[name] = found_in(folder)
    assert found["own"] == found["hadoop"]
    made, modes, _ = found["own"]
    assert made == [Path("a"), Path("a/.file.crc"), Path("a/file")]
    # The JVM creates the checksums with the mask of the process.
    assert (modes[0], modes[2]) == (0o750, 0o640)
    own, hadoop = file_systems(context).values()
    for each in ("own", "own/a", "own/a/file"):
        place = path(str(tmp_path / each))
        assert shown(own.getFileStatus(place)) == shown(hadoop.getFileStatus(place))
        assert [shown(one) for one in own.listStatus(place)] == [
            shown(one) for one in hadoop.listStatus(place)
        ]


def test_the_newer_interface_writes_and_renames_the_same_files(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    fs = jvm.org.apache.hadoop.fs
    path, found = fs.Path, {}
    for name, files in file_contexts(context, **{UMASK: "027"}).items():
        folder = tmp_path / name
        for file, content in (("new", b"second"), ("target", b"first, which is longer")):
            flags = jvm.java.util.EnumSet.of(fs.CreateFlag.CREATE, fs.CreateFlag.OVERWRITE)
            options = array(context, fs.Options.CreateOpts, fs.Options.CreateOpts.createParent())
            out = files.create(path(str(folder / "a" / file)), flags, options)
            out.write(bytearray(content))
            out.close()
        before = found_in(folder)
        source, target = path(str(folder / "a" / "new")), path(str(folder / "a" / "target"))
        with pytest.raises(Exception, match="FileAlreadyExistsException"):
            files.rename(source, target, array(context, fs.Options.Rename))
        files.rename(source, target, array(context, fs.Options.Rename, fs.Options.Rename.OVERWRITE))
        stream = files.open(target)
        content = bytes(stream.readAllBytes())
        stream.close()
        found[name] = (before, found_in(folder), content)
    assert found["own"] == found["hadoop"]
    (made, modes, _), (renamed, _, _), content = found["own"]
    assert made == [Path("a"), *(Path("a", each) for each in (".new.crc", ".target.crc", "new", "target"))]
    assert (modes[0], *modes[3:]) == (0o750, 0o640, 0o640)
    # The checksums are those of the file that was renamed.
    assert (renamed, content) == ([Path("a"), Path("a/.target.crc"), Path("a/target")], b"second")


def array(context: SparkContext, kind: Any, *items: Any) -> Any:
    gateway: Any = context._gateway
    made = gateway.new_array(kind, len(items))
    for number, item in enumerate(items):
        made[number] = item
    return made


def test_a_wrong_checksum_is_noticed_where_hadoop_notices_it(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    place = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
    out = file_systems(context)["own"].create(place)
    out.write(bytearray(b"content"))
    out.close()
    (tmp_path / "file").write_bytes(b"changed")
    for system in file_systems(context).values():
        with pytest.raises(Exception, match="ChecksumException"):
            system.open(place).readAllBytes()
    # Hadoop's newer interface does not verify here.
    for files in file_contexts(context).values():
        assert bytes(files.open(place).readAllBytes()) == b"changed"


def test_the_newer_interface_lists_and_links_as_hadoop_does(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    path = jvm.org.apache.hadoop.fs.Path
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("12345")
    (tmp_path / "in" / "link").symlink_to("file")
    (tmp_path / "in" / "lost").symlink_to("nothing")
    own, hadoop = file_contexts(context).values()
    listed = [
        sorted(shown(each) for each in files.util().listStatus(path(str(tmp_path / "in"))))
        for files in (own, hadoop)
    ]
    assert listed[0] == listed[1]
    assert [each[:2] for each in listed[0]] == [
        (f"file:{tmp_path}/in/file", 5),
        (f"file:{tmp_path}/in/link", 5),
    ]
    for name in ("file", "link", "lost"):
        place = path(str(tmp_path / "in" / name))
        ours, theirs = own.getFileLinkStatus(place), hadoop.getFileLinkStatus(place)
        assert ours.isSymlink() == theirs.isSymlink() == (name != "file")
        if name != "file":
            assert str(ours.getSymlink()) == str(theirs.getSymlink())
            assert str(own.getLinkTarget(place)) == str(hadoop.getLinkTarget(place))
    for files in (own, hadoop):
        with pytest.raises(Exception, match="is not a symbolic link"):
            files.getLinkTarget(path(str(tmp_path / "in" / "file")))
        with pytest.raises(Exception, match="does not exist"):
            files.getLinkTarget(path(str(tmp_path / "in" / "missing")))


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


def test_the_target_of_a_link_is_read_without_a_command(context: SparkContext, tmp_path: Path) -> None:
    jvm: Any = context._jvm
    # Hadoop runs `readlink`, and removes spaces from the end of its output.
    (tmp_path / "link").symlink_to("target ")
    place = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "link"))
    targets = {name: str(files.getLinkTarget(place)) for name, files in file_contexts(context).items()}
    assert targets == {"own": "target ", "hadoop": "target"}


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
