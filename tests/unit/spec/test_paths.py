"""Paths become absolute, and one place has one spelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.spec.paths import absolute, is_uri, lies_in, local_path, overlap, plain_path

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
