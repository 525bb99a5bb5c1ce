"""A connector's code is sent whole when its package is from outside, and by name when it is built in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from pyspark import cloudpickle

from headwater.connectors import Connector, all_connectors
from headwater.engine import session
from headwater.engine.session import package_of, send_by_value

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
