"""Paths become absolute, and one place has one spelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.spec.paths import (
    absolute,
    escaped,
    is_pattern,
    is_uri,
    lies_in,
    local_matches,
    local_path,
    matcher,
    overlap,
    plain_path,
    split_fixed,
    without_braces,
)

ROOT = Path("/project")


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("in", "/project/in"),
        ("./in/", "/project/in"),
        ("in/../out", "/project/out"),
        ("..", "/"),
        ("../../..", "/"),
        ("/data//x/./y", "/data/x/y"),
        ("in/*.json", "/project/in/*.json"),
        ("s3a://bucket/../x", "s3a://bucket/../x"),
        ("hdfs:/data", "hdfs:/data"),
        ("file:///data//in/./x/../{a,b}/", "file:///data/in/{a,b}/"),
        ("file:////data", "file:///data"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket/", "s3a://bucket/"),
    ],
)
def test_a_path_is_absolute(written: str, path: str) -> None:
    assert absolute(written, ROOT) == path


def test_the_home_folder() -> None:
    assert absolute("~/x", ROOT) == str(Path.home() / "x")


@pytest.mark.parametrize(
    ("path", "uri"), [("s3a://b/x", True), ("file:///x", True), ("C:x", False), ("/a:/b", False)]
)
def test_a_path_that_names_its_file_system(path: str, uri: bool) -> None:
    assert is_uri(path) is uri


@pytest.mark.parametrize(
    ("place", "read", "inside"),
    [
        ("/a/in", "/a/in", True),
        ("/a/in/x/y", "/a/in", True),
        ("file:///a/in/x", "/a/in", True),
        ("/a/in", "/a/in/x", False),
        ("/a/x/kept", "/a/*", True),
        ("/a/x", "/a/*/*.json", True),
        ("/a/x/kept", "/a/*/*.json", False),
        ("s3a://b/x/y", "s3a://b/x", True),
        ("s3a://b/x/y", "s3a://b/*", True),
        ("/a/out", "/a/{in,out}/*.{csv,json}", True),
        ("/a/out", "/a/{in,more}/*.json", False),
        ("/a/[x]/out", r"/a/\[x\]/o*", True),
        # The name of a table is no path, whatever a folder is called.
        ("/a/orders", "orders", False),
        ("orders", "orders", True),
    ],
)
def test_whether_a_place_is_read(place: str, read: str, inside: bool) -> None:
    assert lies_in(place, read) is inside


def test_a_link_does_not_hide_that_folders_overlap(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    assert overlap(str(tmp_path / "link" / "x"), str(tmp_path / "in"))
    assert not overlap(str(tmp_path / "out"), str(tmp_path / "in"))


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("file:///t/a%20b%2520.json", Path("/t/a b%20.json")),
        ("file:/t/a", Path("/t/a")),
        ("file:///t/a%3Fb%23c", Path("/t/a?b#c")),
        ("hdfs://host/a/x.json", None),
    ],
)
def test_addresses_of_spark_are_decoded(address: str, path: Path | None) -> None:
    assert local_path(address) == path


@pytest.mark.parametrize(
    ("place", "path"),
    [("file:///t/a%20", "/t/a%20"), ("file:/t", "/t"), ("/t", "/t"), ("s3a://b/file:/x", "s3a://b/file:/x")],
)
def test_a_place_without_file(place: str, path: str) -> None:
    assert plain_path(place) == path


@pytest.mark.parametrize(
    ("pattern", "covered", "other"),
    [
        ("/a/in", ["/a/in", "/a/in/x", "/a/in/b/x"], ["/a/inner/x", "/a"]),
        ("/a/*.csv", ["/a/x.csv"], ["/a/b/x.csv", "/a/xcsv"]),
        ("/a/{x,y[0-9]}/?", ["/a/x/1", "/a/y3/b/c"], ["/a/y/1", "/a/x/12"]),
        (r"/a\[1\]/[^ab]", ["/a[1]/c"], ["/a1/c", "/a[1]/a"]),
        ("/a/[[&&x]", ["/a/[", "/a/&", "/a/x"], ["/a/y"]),
        # What is no whole pattern is the text that it is; Spark refuses it.
        ("/a/{x", ["/a/{x"], ["/a/x"]),
        ("/a/[z-a]", ["/a/[z-a]"], ["/a/z"]),
    ],
)
def test_what_a_pattern_covers(pattern: str, covered: list[str], other: list[str]) -> None:
    assert all(matcher(pattern).fullmatch(file) for file in covered)
    assert not any(matcher(pattern).fullmatch(file) for file in other)


@pytest.mark.parametrize("path", ["/a/*", "/a/x?", "/a/[x]", "/a/{x,y}", r"/a/\x"])
def test_what_is_a_pattern(path: str) -> None:
    assert is_pattern(path)
    assert not is_pattern("/a/x=1, y (z)")
    assert split_fixed(escaped(path)) == (path, "")


@pytest.mark.parametrize(
    ("pattern", "folder", "rest"),
    [
        (r"/a\[1\]/b/*/c", "/a[1]/b", "/*/c"),
        ("/a/{b/c,d}/e", "/a", "/{b/c,d}/e"),
        ("/*", "", "/*"),
    ],
)
def test_the_folder_before_a_pattern(pattern: str, folder: str, rest: str) -> None:
    assert split_fixed(pattern) == (folder, rest)


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        ("/a", ["/a"]),
        ("/{a,b{c,/d}}/{e}", ["/a/e", "/bc/e", "/b/d/e"]),
        (r"/\{a,b}/[{,}]", [r"/\{a,b}/[{,}]"]),
        ("/{a,b", ["/{a,b"]),
    ],
)
def test_braces_are_choices(pattern: str, plain: list[str]) -> None:
    assert without_braces(pattern) == plain


def test_what_lies_here(tmp_path: Path) -> None:
    root = tmp_path / "[x]"
    for name in ("eu/day=1/a.json", "us/day=2/b.json", "us/c.csv", "asia/day=3/d.json"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()

    def found(pattern: str) -> set[str]:
        return {str(Path(file).relative_to(root)) for file in local_matches(escaped(str(root)) + pattern)}

    assert found("/{eu,us}") == {"eu", "us"}
    assert found("/{eu,us,us}/day=*") == {"eu/day=1", "us/day=2"}
    assert found("/{us/*.csv,asia/*/[^a-c].json}") == {"us/c.csv", "asia/day=3/d.json"}
    assert found("/us/c.csv/*") == found("/none") == set()
    assert found("") == {"."}
