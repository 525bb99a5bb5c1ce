"""Which archive of classes a start uses: one for its Java and class path, unless the user decides otherwise."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from headwater.spark.class_data import Attempts, ClassData, find
from headwater.spark.java import Java


@pytest.fixture
def java(tmp_path: Path) -> Java:
    server = tmp_path / "java" / "lib" / "server"
    server.mkdir(parents=True)
    (server / "libjvm.so").write_bytes(b"machine")
    (server / "classes.jsa").write_bytes(b"own")
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.1"')
    return Java(tmp_path / "java", tmp_path / "java" / "bin" / "java", 17, "JAVA_HOME")


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-core.jar").write_bytes(b"classes")
    return tmp_path / "spark"


def found(
    java: Java, spark: Path, settings: dict[str, str] | None = None, **environ: str
) -> ClassData | None:
    cache = {"XDG_CACHE_HOME": str(spark.parent / "cache")}
    return find(java, spark, settings or {}, {**cache, **environ})


def key(java: Java, spark: Path, settings: dict[str, str] | None = None, **environ: str) -> str:
    archive = found(java, spark, settings, **environ)
    assert archive is not None
    return archive.key


def test_an_archive_belongs_to_one_java_one_spark_and_one_class_path(java: Java, spark: Path) -> None:
    keys = [key(java, spark), key(java, spark)]
    assert keys[0] == keys[1]
    keys = [keys[0], key(java, spark, {"spark.driver.extraClassPath": "/other.jar"})]
    keys.append(key(java, spark, SPARK_DIST_CLASSPATH="/more.jar"))
    (spark / "jars" / "spark-core.jar").write_bytes(b"other classes")
    keys.append(key(java, spark))
    os.utime(spark / "jars" / "spark-core.jar", (1, 1))
    keys.append(key(java, spark))
    (java.runtime / "release").write_text('JAVA_VERSION="17.0.2"')
    keys.append(key(java, spark))
    assert len(set(keys)) == len(keys) == 6


def test_it_lies_in_the_cache_of_the_user(java: Java, spark: Path) -> None:
    archive = found(java, spark)
    assert archive is not None
    assert archive.archive.parent == spark.parent / "cache" / "headwater" / "class-data"
    assert archive.files == (archive.archive,)


def test_a_java_without_an_archive_of_its_own_gets_two(java: Java, spark: Path) -> None:
    (java.runtime / "lib" / "server" / "classes.jsa").unlink()
    archive = found(java, spark)
    assert archive is not None
    assert archive.files == (archive.base, archive.archive)
    assert archive.use() == f"{archive.base}{os.pathsep}{archive.archive}"


@pytest.mark.parametrize(
    "environ",
    [
        {"HEADWATER_CLASS_DATA": "off"},
        {"HEADWATER_CLASS_DATA": "OFF"},
        {"SPARK_SUBMIT_OPTS": "-XX:SharedArchiveFile=/mine.jsa"},
        {"JAVA_TOOL_OPTIONS": "-Xshare:off"},
        {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -XX:ArchiveClassesAtExit=/mine.jsa pyspark-shell"},
    ],
)
def test_the_user_decides(java: Java, spark: Path, environ: dict[str, str]) -> None:
    assert found(java, spark, {}, **environ) is None


def test_an_archive_in_the_users_settings_wins(java: Java, spark: Path) -> None:
    assert found(java, spark, {"spark.driver.extraJavaOptions": "-XX:SharedArchiveFile=/mine.jsa"}) is None
    assert found(java, spark, {"spark.driver.extraJavaOptions": "-Xmn300m"}) is not None


def test_java_makes_none_for_a_class_path_with_a_full_directory(java: Java, spark: Path) -> None:
    (spark / "conf").mkdir()
    assert found(java, spark) is not None
    (spark / "conf" / "spark-defaults.conf").write_text("")
    assert found(java, spark) is None
    assert found(java, spark, SPARK_CONF_DIR=str(spark / "elsewhere")) is not None


def test_a_spark_without_jars_has_none(java: Java, tmp_path: Path) -> None:
    assert find(java, tmp_path / "nothing", {}, {"XDG_CACHE_HOME": str(tmp_path)}) is None


def made(folder: Path, name: str = "k") -> ClassData:
    folder.mkdir(exist_ok=True)
    archive = ClassData(folder, name)
    archive.archive.write_bytes(b"classes")
    archive.complete()
    return archive


def age(*files: Path) -> None:
    """Nobody has used these for a month."""
    long_ago = time.time() - 31 * 24 * 3600
    for file in files:
        os.utime(file, (long_ago, long_ago))


def test_an_archive_is_used_only_as_it_was_written(tmp_path: Path) -> None:
    archive = ClassData(tmp_path, "k")
    seen = [archive.is_complete]
    archive.archive.write_bytes(b"classes")
    seen.append(archive.is_complete)
    archive.complete()
    seen.append(archive.is_complete)
    archive.archive.write_bytes(b"clas")
    seen.append(archive.is_complete)
    archive.archive.write_bytes(b"classes")
    (tmp_path / "k.json").write_text("{")
    seen.append(archive.is_complete)
    assert seen == [False, False, True, False, False]


def test_attempts_end_after_three_or_with_a_reason(tmp_path: Path) -> None:
    archive = ClassData(tmp_path, "k")
    assert archive.attempts() == Attempts()
    archive.note(Attempts(2))
    assert not archive.attempts().exhausted
    archive.note(Attempts(3))
    assert archive.attempts().exhausted
    archive.note(Attempts(1, "no room"))
    assert archive.attempts() == Attempts(1, "no room")
    assert archive.attempts().exhausted
    archive.archive.write_bytes(b"classes")
    archive.complete()
    assert archive.attempts() == Attempts()


def test_what_nobody_used_for_a_month_is_deleted(tmp_path: Path) -> None:
    old, used, new = made(tmp_path, "old"), made(tmp_path, "used"), made(tmp_path, "new")
    old.base.write_bytes(b"classes of Java")
    age(*tmp_path.iterdir())
    used.use()
    new.delete_unused()
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["new.jsa", "new.json", "used.jsa", "used.json"]


def test_what_killed_attempts_left_is_deleted_after_a_month(tmp_path: Path) -> None:
    new = made(tmp_path, "new")
    # An attempt that left everything but the sizes, and a directory of an archive that is in use.
    killed, used = ClassData(tmp_path, "killed"), made(tmp_path, "used")
    killed.note(Attempts(3))
    for file in (killed.base, killed.archive, killed.lock, tmp_path / "killed.part-7"):
        file.write_bytes(b"")
    for folder in (".part-killed-a", ".part-used-b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part.jsa").write_bytes(b"")
    age(*tmp_path.iterdir())
    used.use()
    # One that runs now.
    running = ClassData(tmp_path, "running")
    running.lock.write_bytes(b"")
    age(running.lock)
    running.note(Attempts(1))
    (tmp_path / ".part-running-c").mkdir()
    new.delete_unused()
    names = sorted(file.name for file in tmp_path.iterdir())
    kept = ["new.jsa", "new.json", "running.attempts", "running.lock", "used.jsa", "used.json"]
    assert names == [".part-running-c", *kept]


def test_an_image_of_a_container_keeps_no_fractions_of_seconds(java: Java, spark: Path) -> None:
    jar = spark / "jars" / "spark-core.jar"
    os.utime(jar, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    before = key(java, spark)
    os.utime(jar, (1_700_000_000, 1_700_000_000))
    assert key(java, spark) == before


def test_there_is_none_without_a_place_for_it(
    java: Java, spark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Java would read this as two paths.
    assert found(java, spark, XDG_CACHE_HOME="/a:b") is None

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert found(java, spark, XDG_CACHE_HOME="") is None
