"""Paths become absolute, and one place has one spelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.spec.paths import absolute, is_uri

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
