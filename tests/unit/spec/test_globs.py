"""Patterns are those of Hadoop, in which braces count."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.spec.paths import escaped, is_pattern, local_matches, matcher, split_fixed, without_braces


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
