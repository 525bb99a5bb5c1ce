"""Whose classes Spark uses for local files: Headwater's, unless the user has set one of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkConf

from headwater.spark import local_files
from headwater.spark.local_files import CLASSES, use_local_files

FILE, CONTEXT = CLASSES
DEFAULTS = "core-default.xml"


def settings_of(given: dict[str, str], sources: dict[str, list[str]]) -> tuple[dict[str, str], int]:
    """The settings for local files after the start, and how often Hadoop's open file systems were closed."""
    closed: list[None] = []
    hadoop = SimpleNamespace(getPropertySources=lambda key: sources.get(f"spark.hadoop.{key}"))
    jvm: Any = SimpleNamespace()
    jvm.org = SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace()))
    jvm.org.apache.hadoop.conf = SimpleNamespace(Configuration=lambda: hadoop)
    jvm.org.apache.hadoop.fs = SimpleNamespace(
        FileSystem=SimpleNamespace(closeAll=lambda: closed.append(None))
    )
    conf = SparkConf(loadDefaults=False)
    for key, value in given.items():
        conf.set(key, value)
    use_local_files(conf, jvm)
    return dict(conf.getAll()), len(closed)


@pytest.fixture(autouse=True)
def jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "has_jar", lambda jvm: True)


def test_both_interfaces_get_headwaters_class() -> None:
    sources = {FILE: [DEFAULTS], CONTEXT: [DEFAULTS]}
    assert settings_of({}, {}) == settings_of({}, sources) == (CLASSES, 1)


@pytest.mark.parametrize("key", CLASSES)
def test_one_setting_of_the_user_switches_both(key: str) -> None:
    assert settings_of({key: "mine"}, {}) == ({key: "mine"}, 0)


@pytest.mark.parametrize("key", CLASSES)
def test_a_file_of_hadoop_switches_both(key: str) -> None:
    assert settings_of({}, {key: [DEFAULTS, "core-site.xml"]}) == ({}, 0)


def test_a_jvm_without_the_jar_keeps_hadoops_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "has_jar", lambda jvm: False)
    assert settings_of({}, {}) == ({}, 0)
