"""The settings of a session: whose word counts, what a running Spark has already, what is hidden."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from headwater.connectors import Connector, all_connectors
from headwater.engine import session
from headwater.engine.launch import JARS, given_settings
from headwater.engine.session import (
    REDACTED_OPTIONS,
    WAREHOUSE,
    _holds,
    _with_secret_options_hidden,
    package_of,
    send_by_value,
)
from tests.unit.specs import spec_of

PIPELINE = """
name: p
spark: {spark.master: "local[1]", spark.ui.enabled: "false", spark.a: file, spark.b: file}
sources: {clicks: {connector: rate, options: {token: "${secret:TOKEN}", a.b: "${secret:TOKEN}"}}}
sinks: {out: {reads: clicks, connector: noop}}
"""


@pytest.mark.parametrize(
    ("now", "value", "same"),
    [
        ("file:/data/warehouse", "/data/warehouse", True),
        (f"file:{os.getcwd()}/warehouse", "warehouse", True),
        ("file:/data/warehouse", "/data/other", False),
        ("hdfs://host/warehouse", "hdfs://host/warehouse", True),
        (None, "/data/warehouse", False),
    ],
)
def test_the_folder_of_tables(now: str | None, value: str, same: bool) -> None:
    assert _holds(now, WAREHOUSE, value) is same


def test_an_option_wins_over_conf_and_conf_over_the_file() -> None:
    spec = spec_of(PIPELINE)
    conf = {"spark.master": "local[2]", "spark.b": "conf"}
    above = {"spark.a": "file", "spark.b": "conf"}
    assert given_settings(spec, conf, master=None, spark_ui=False) == {
        **above,
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
    }
    assert given_settings(spec, conf, master="local[3]", spark_ui=True) == {
        **above,
        "spark.master": "local[3]",
        "spark.ui.enabled": "true",
    }


@pytest.mark.parametrize(
    ("now", "value", "same"),
    [
        ("/a.jar", "/a.jar", True),
        ("/a.jar,/cache/avro.jar", "/a.jar", True),
        ("/cache/avro.jar", "/a.jar", False),
        (None, "/a.jar", False),
    ],
)
def test_the_jars_of_connectors_stand_beside_those_of_the_user(
    now: str | None, value: str, same: bool
) -> None:
    assert _holds(now, JARS, value) is same


@pytest.mark.parametrize(
    ("given", "widened", "kept"),
    [
        ({}, "(?i)url|a\\.b|token", {}),
        ({REDACTED_OPTIONS: "pin"}, "pin|a\\.b|token", {REDACTED_OPTIONS: "pin|a\\.b|token"}),
        ({REDACTED_OPTIONS: ""}, "a\\.b|token", {REDACTED_OPTIONS: "a\\.b|token"}),
    ],
)
def test_what_hides_secret_options_outlives_the_user_s_own_pattern(
    given: dict[str, str], widened: str, kept: dict[str, str]
) -> None:
    conf = {REDACTED_OPTIONS: "(?i)url"}
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=conf.get, set=conf.__setitem__))
    assert _with_secret_options_hidden(spark, spec_of(PIPELINE), given) == kept
    assert conf == {REDACTED_OPTIONS: widened}


FILES = {
    "hwt_plain/__init__.py": "",
    "hwt_plain/tasks.py": "def task():\n    return 'sent'\n",
    "hwt_plain/sink.py": "from headwater.connectors import Sink\nclass Plain(Sink):\n    pass\n",
    "hwt_shared/one/__init__.py": "",
    "hwt_shared/one/deep/__init__.py": "",
    "hwt_shared/one/deep/spark.py": "",
    "hwt_single.py": "",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages; afterwards nothing is known of them."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    by_value = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    yield tmp_path
    for name in cloudpickle.list_registry_pickle_by_value() - by_value:  # type: ignore[no-untyped-call]
        cloudpickle.unregister_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
    for name in [name for name in sys.modules if name.startswith("hwt_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("hwt_plain.sink", "hwt_plain"),
        ("hwt_shared.one.deep.spark", "hwt_shared.one"),
        ("hwt_single", "hwt_single"),
    ],
)
@pytest.mark.usefixtures("site")
def test_the_package_of_a_module(module: str, package: str) -> None:
    assert package_of(import_module(module)).__name__ == package


@pytest.mark.usefixtures("site")
def test_code_from_outside_needs_no_package_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"plain": Connector("plain", "Plain.", sink=import_module("hwt_plain.sink").Plain())}
    monkeypatch.setattr(session, "all_connectors", lambda: known)
    task = import_module("hwt_plain.tasks").task
    assert b"hwt_plain.tasks" in cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    send_by_value("plain")
    sent = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    with monkeypatch.context() as elsewhere:
        for name in [name for name in sys.modules if name.startswith("hwt_")]:
            elsewhere.setitem(sys.modules, name, None)
        assert cloudpickle.loads(sent)() == "sent"


def test_built_in_code_is_sent_by_name() -> None:
    for name in sorted(all_connectors()):
        send_by_value(name)
    assert "headwater" not in cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
