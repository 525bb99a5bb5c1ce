"""What starts light stays light: the modules that are loaded, seen from a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("pyspark", "py4j", "pandas", "numpy", "pyarrow")
PIPELINE = """
name: p
sources: {clicks: {connector: rate}}
tables: {few: SELECT * FROM clicks, coded: {python: "code.py:coded"}}
sinks: {out: {reads: few, connector: noop}, more: {reads: coded, connector: noop}}
"""
CALL = """
import sys
sys.argv = ["headwater", *{arguments}]
from headwater.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


def loaded_after(code: str, folder: Path) -> set[str]:
    """The top packages that are loaded after some code has run, in a process where there is no Java."""
    report = "import sys; print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    environ = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        cwd=folder,
        env={**environ, "PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "code.py").write_text("import pyspark\n\n\ndef coded(clicks): ...\n", encoding="utf-8")
    return tmp_path


def test_importing_headwater_loads_next_to_nothing(folder: Path) -> None:
    loaded = loaded_after("import headwater; dir(headwater)", folder)
    assert loaded & {*HEAVY, "pydantic", "rich", "typer", "sqlglot", "ruamel"} == set()


def test_declaring_connectors_loads_no_spark(folder: Path) -> None:
    code = "import headwater as hw; hw.files(path='in', format='text'); hw.secret('KEY')"
    assert loaded_after(code, folder) & set(HEAVY) == set()


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_versions_load_no_parser_of_sql_or_yaml(folder: Path, option: str) -> None:
    loaded = loaded_after(CALL.format(arguments=[option]), folder)
    assert loaded & {*HEAVY, "sqlglot", "ruamel"} == set()


@pytest.mark.parametrize("arguments", [["check", "--offline", "pipeline.yml"], ["schema"]])
def test_commands_that_need_no_spark_load_none(folder: Path, arguments: list[str]) -> None:
    assert loaded_after(CALL.format(arguments=arguments), folder) & set(HEAVY) == set()
