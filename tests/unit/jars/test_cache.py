"""Jars are taken by their checksum from a folder, the cache or a repository, in this order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.errors import SetupError
from headwater.jars import TABLE, Artifact, JarStore, Release, artifacts
from headwater.jars.cache import Fetch

OLD, NEW = b"the older jar", b"the newer jar"


def release(version: str, content: bytes) -> Release:
    return Release(version, hashlib.sha256(content).hexdigest())


ARTIFACT = Artifact("org.example", "birds_2.13", (release("2.0", NEW), release("1.0", OLD)))


def repository(contents: dict[str, bytes], asked: list[str] | None = None) -> Fetch:
    """A repository that has these versions."""

    def fetch(wanted: Sequence[tuple[str, str, str]], folder: Path) -> str:
        for _, name, version in wanted:
            if asked is not None:
                asked.append(version)
            if version not in contents:
                return "not found"
            (folder / f"{name}-{version}.jar").write_bytes(contents[version])
        return ""

    return fetch


def refusal(store: JarStore) -> tuple[str, dict[str, object]]:
    with pytest.raises(SetupError) as error:
        store.take(ARTIFACT)
    (problem,) = error.value.problems
    return problem.code, dict(problem.params)


def test_the_first_release_that_the_repository_has_is_taken_into_the_cache(tmp_path: Path) -> None:
    asked: list[str] = []
    store = JarStore(tmp_path / "cache", fetch=repository({"1.0": OLD}, asked))

    first, second = store.take(ARTIFACT), store.take(ARTIFACT)

    assert (first.coordinates, first.origin) == ("org.example:birds_2.13:1.0", "repository")
    assert (second.path, second.origin) == (first.path, "cache")
    assert first.path.read_bytes() == OLD
    assert asked == ["2.0", "1.0"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["birds_2.13-1.0.jar"]


def test_a_given_folder_comes_before_cache_and_repository(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "birds_2.13-2.0.jar").write_bytes(NEW)

    taken = JarStore(tmp_path / "cache", folder).take(ARTIFACT)

    assert (taken.path, taken.origin) == (folder / "birds_2.13-2.0.jar", "folder")


def test_without_any_of_them_the_refusal_says_which_file_to_put_where(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()

    code, params = refusal(JarStore(tmp_path / "cache", folder, repository({})))

    assert code == "HW-JAR-DOWNLOAD-FAILED"
    assert params["coordinates"] == "org.example:birds_2.13:2.0 or org.example:birds_2.13:1.0"
    assert params["file"] == "birds_2.13-2.0.jar or birds_2.13-1.0.jar"
    assert params["folder"] == str(folder)
    assert "not found" in str(params["reason"])


@pytest.mark.parametrize("place", ["cache", "repository"])
def test_a_jar_with_another_checksum_is_refused(tmp_path: Path, place: str) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    if place == "cache":
        (cache / "birds_2.13-2.0.jar").write_bytes(b"something else")

    code, params = refusal(JarStore(cache, fetch=repository({"2.0": b"something else"})))

    assert params["coordinates"] == "org.example:birds_2.13:2.0"
    if place == "cache":
        assert (code, params["path"]) == ("HW-JAR-CHECKSUM", str(cache / "birds_2.13-2.0.jar"))
    else:
        assert (code, params["path"]) == ("HW-JAR-DOWNLOAD-CHECKSUM", "birds_2.13-2.0.jar")
        assert list(cache.iterdir()) == []


def test_the_table_names_exact_releases_with_checksums() -> None:
    listed = [each for line in TABLE.values() for needed in line.values() for each in needed]
    assert listed
    for artifact in listed:
        assert artifact.releases
        assert all(len(release.sha256) == 64 for release in artifact.releases)


def test_a_need_is_looked_up_by_the_line_of_spark() -> None:
    assert artifacts("avro", "4.1.4") == TABLE["4.1"]["avro"]
    assert artifacts("avro", "3.5.1") is None
    assert artifacts("nothing", "4.1.4") is None


def test_many_jars_are_fetched_together_and_the_rest_one_by_one(tmp_path: Path) -> None:
    birds, fish = ARTIFACT, Artifact("org.example", "fish", (release("1.0", OLD),))
    asked: list[list[str]] = []

    def fetch(wanted: Sequence[tuple[str, str, str]], folder: Path) -> str:
        asked.append([":".join(each) for each in wanted])
        for _, name, version in wanted:
            if version == "1.0":
                (folder / f"{name}-1.0.jar").write_bytes(OLD)
        return "birds_2.13:2.0 not found"

    store = JarStore(tmp_path / "cache", fetch=fetch)
    taken = [each.coordinates for each in store.take_all((birds, fish))]
    assert taken == ["org.example:birds_2.13:1.0", "org.example:fish:1.0"]
    assert asked == [
        ["org.example:birds_2.13:2.0", "org.example:fish:1.0"],
        ["org.example:birds_2.13:2.0"],
        ["org.example:birds_2.13:1.0"],
    ]
    assert [each.origin for each in store.take_all((birds, fish))] == ["cache", "cache"]
    assert len(asked) == 3


def test_a_jar_that_came_with_others_is_held_against_its_checksum(tmp_path: Path) -> None:
    fish = Artifact("org.example", "fish", (release("1.0", OLD),))
    store = JarStore(tmp_path / "cache", fetch=repository({"1.0": NEW, "2.0": NEW}))
    with pytest.raises(SetupError) as error:
        store.take_all((fish, ARTIFACT))
    assert error.value.problems[0].code == "HW-JAR-DOWNLOAD-CHECKSUM"
    assert list((tmp_path / "cache").iterdir()) == []
