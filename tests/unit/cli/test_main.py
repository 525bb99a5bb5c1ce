"""Parsing, exit codes, output, and the modules that a command loads when it needs no Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from headwater.api import batch, check, run
from headwater.errors import CheckpointError, ForcedStopError, QueryFailedError, SetupError
from headwater.errors.catalogue.running import FORCED_STOP
from tests.unit.cli.conftest import Headwater

COMMANDS = ("init", "doctor", "check", "explain", "schema", "run", "test")
GOOD = """
name: p
sources: {clicks: {connector: rate}}
sinks: {out: {reads: clicks, connector: noop}}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "good.yml"
    file.write_text(GOOD, encoding="utf-8")
    return file


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    file = tmp_path / "bad.yml"
    file.write_text(GOOD.replace("rate", "rat").replace("noop", "nop"), encoding="utf-8")
    return file


def test_help_names_every_command(headwater: Headwater) -> None:
    answer = headwater("--help")
    assert (answer.code, answer.err) == (0, "")
    assert [name for name in COMMANDS if f"\n  {name} " not in answer.out] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(headwater: Headwater, command: str) -> None:
    answer = headwater(command, "--help")
    assert answer.code == 0
    assert "--json" in answer.out


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("check",), "check [OPTIONS] FILE [-- ARGS...]"),
        (("test",), "test [OPTIONS] [PATH...]"),
        (("quarantine", "show"), "quarantine show [OPTIONS] FILE NAME"),
        (("dev", "kafka"), "dev kafka [OPTIONS]"),
    ],
)
def test_help_shows_no_python_types(headwater: Headwater, words: tuple[str, ...], usage: str) -> None:
    answer = headwater(*words, "--help")
    assert answer.out.splitlines()[0].endswith(f" {usage}")
    assert not re.search(r"<[a-z]|\{", answer.out)


@pytest.mark.parametrize(
    "arguments", [("chek",), ("check",), ("check", "a", "b"), ("run", "a", "--no-such-option")]
)
def test_a_command_line_that_makes_no_sense(headwater: Headwater, arguments: tuple[str, ...]) -> None:
    answer = headwater(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "--help" in answer.err


@pytest.mark.parametrize(
    ("arguments", "old", "new"),
    [
        (("run", "p.yml", "--batch", "--into", "x"), "--into", "--output-dir"),
        (("check", "job.py", "--deadline", "5s"), "--deadline", "--timeout"),
        (("quarantine", "export", "p.yml", "a", "--to", "x"), "--to", "--output"),
        (("quarantine", "replay", "p.yml", "a", "--from", "x"), "--from", "--file"),
        (("dev", "kafka", "--folder", "x"), "--folder", "--data-dir"),
        (("doctor", "--folder", "x"), "--folder", "--dir"),
    ],
)
def test_a_renamed_option_gives_its_new_name(
    headwater: Headwater, arguments: tuple[str, ...], old: str, new: str
) -> None:
    answer = headwater(*arguments, "--json")
    (problem,) = answer.json["problems"]
    assert (answer.code, problem["code"]) == (2, "HW-OPTION-RENAMED")
    assert problem["message"] == f"Option `{old}` was renamed to `{new}`."


def test_a_good_pipeline(headwater: Headwater, good: Path) -> None:
    answer = headwater("check", "--offline", good)
    assert (answer.code, answer.out, answer.err) == (0, f"{good}: offline check passed: no findings.\n", "")


def test_a_bad_pipeline(headwater: Headwater, bad: Path) -> None:
    answer = headwater("check", "--offline", bad)
    assert (answer.code, answer.out) == (
        3,
        f"{bad}: offline check failed: 2 errors.\n",
    )
    heads = [line for line in answer.err.splitlines() if not line.startswith("  ")]
    assert heads == [
        f"{bad}:3:31: error HW-CONNECTOR-NOT-FOUND",
        f"{bad}:4:41: error HW-CONNECTOR-NOT-FOUND",
    ]
    assert answer.err.count("Did you mean") == 2


def test_a_good_pipeline_as_json(headwater: Headwater, good: Path) -> None:
    answer = headwater("check", "--offline", "--json", good)
    assert (answer.code, answer.err) == (0, "")
    told = answer.json
    (sink,) = told.pop("sinks")
    assert (sink["name"], sink["bounds"], sink["guarantee"]["level"]) == ("out", None, "unknown")
    assert told == {
        "file": str(good),
        "pipeline": "p",
        "offline": True,
        "strict": False,
        "ok": True,
        "findings": [],
    }


def test_a_bad_pipeline_as_json(headwater: Headwater, bad: Path) -> None:
    answer = headwater("check", "--offline", "--json", bad)
    assert (answer.code, answer.err, answer.json["ok"], answer.json["pipeline"]) == (3, "", False, None)
    first = answer.json["findings"][0]
    assert set(first) == {
        "severity", "sink", "table", "suppressed", "suggested_sql",
        "code", "message", "hint", "retryable", "file", "line", "column",
    }  # fmt: skip
    assert (first["severity"], first["code"], first["file"], first["line"], first["column"]) == (
        "error",
        "HW-CONNECTOR-NOT-FOUND",
        str(bad),
        3,
        31,
    )


def test_a_warning_does_not_fail(headwater: Headwater, good: Path) -> None:
    good.write_text(GOOD + "tables: {unread: SELECT 1 AS one}\n", encoding="utf-8")
    answer = headwater("check", "--offline", good)
    assert (answer.code, "warning HW-DECLARATION-UNUSED" in answer.err) == (0, True)
    assert "offline check passed: 1 warning" in answer.out


@pytest.mark.parametrize(("command", "code"), [("run", 3), ("explain", 3), ("check", 3)])
def test_no_file(headwater: Headwater, tmp_path: Path, command: str, code: int) -> None:
    answer = headwater(command, tmp_path / "none.yml")
    assert (answer.code, "error HW-FILE-NOT-FOUND" in answer.err) == (code, True)


def test_a_refusal_as_json(headwater: Headwater, bad: Path) -> None:
    answer = headwater("run", bad, "--json")
    assert (answer.code, answer.err, answer.json["ok"]) == (3, "", False)
    assert [problem["code"] for problem in answer.json["problems"]] == ["HW-CONNECTOR-NOT-FOUND"] * 2
    # Where `run` tells events line by line, so is this.
    assert answer.out.count("\n") == 1


def test_what_is_no_pipeline_file(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    answer = headwater("check", "--offline", tmp_path / "notes.txt")
    assert (answer.code, "HW-PIPELINE-FILE-INVALID" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--conf", "a"), "HW-CONF-INVALID"),
        (("--conf", "=a"), "HW-CONF-INVALID"),
        (("--conf", "driver.memory=2g"), "HW-SPARK-SETTING-INVALID"),
        (("--conf", "spark.scheduler.mode=FIFO"), "HW-SPARK-SETTING-NOT-ALLOWED"),
        (("--for", "3"), "HW-DURATION-INVALID"),
        (("--stop-timeout", "soon"), "HW-DURATION-INVALID"),
        (("--output-dir", "results"), "HW-OPTION-NEEDS-BATCH"),
        (("--append",), "HW-OPTION-NEEDS-BATCH"),
        (("--batch", "--stop-timeout", "5s"), "HW-OPTIONS-CONFLICT-BATCH"),
        (("--batch", "--fail-fast"), "HW-OPTIONS-CONFLICT-BATCH"),
    ],
)
def test_options_that_are_wrong(
    headwater: Headwater, good: Path, arguments: tuple[str, ...], code: str
) -> None:
    answer = headwater("run", good, *arguments)
    assert (answer.code, f"error {code}" in answer.err) == (2, True)


def test_every_wrong_setting_is_told_with_what_was_meant(headwater: Headwater, good: Path) -> None:
    wrong = ("fs.s3a.endpoint=here", "sprk.driver.memory=2g", "spark.ui.port=1")
    answer = headwater("check", good, "--offline", "--json", *(f"--conf={each}" for each in wrong))
    assert (answer.code, answer.err) == (2, "")
    assert [problem["hint"] for problem in answer.json["problems"]] == [
        "Did you mean `spark.hadoop.fs.s3a.endpoint`?",
        "Did you mean `spark.driver.memory`?",
    ]


def test_the_versions(headwater: Headwater) -> None:
    answer = headwater("--version")
    versions = [f"{package} {version(package)}\n" for package in ("headwater", "pyspark")]
    assert (answer.code, answer.out, answer.err) == (0, "".join(versions), "")


def test_the_schema(headwater: Headwater) -> None:
    answer = headwater("schema")
    assert (answer.code, answer.err, answer.json["title"]) == (0, "", "Headwater pipeline")


def test_init_and_its_json(headwater: Headwater, tmp_path: Path) -> None:
    answer = headwater("init", tmp_path / "new", "--json")
    assert (answer.code, set(answer.json)) == (0, {"files", "next_command"})
    again = headwater("init", tmp_path / "new")
    assert (again.code, "HW-DIRECTORY-NOT-EMPTY" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [(QueryFailedError, 1), (CheckpointError, 4), (SetupError, 5), (ForcedStopError, 130)],
)
def test_every_kind_of_error_has_its_exit_code(
    headwater: Headwater, good: Path, monkeypatch: pytest.MonkeyPatch, error: type, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error(FORCED_STOP.at(None))

    monkeypatch.setattr(check, "load", fail)
    answer = headwater("check", "--offline", good)
    assert (answer.code, "error HW-FORCED-STOP" in answer.err, "Traceback" in answer.err) == (
        code,
        True,
        False,
    )


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of Headwater's own."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("first line\nsecond line")

    for module in (check, run, batch):
        monkeypatch.setattr(module, "load", fail)


@pytest.mark.usefixtures("broken")
def test_a_fault_of_our_own_is_one_sentence_with_a_way_on(headwater: Headwater, good: Path) -> None:
    answer = headwater("check", "--offline", good)
    assert (answer.code, answer.out) == (70, "")
    assert "error HW-INTERNAL-ERROR" in answer.err
    assert "RuntimeError: first line" in answer.err
    assert "--verbose" in answer.err
    assert "Traceback" not in answer.err
    assert "second line" not in answer.err


@pytest.mark.usefixtures("broken")
def test_verbose_shows_the_traceback_behind_a_fault(headwater: Headwater, good: Path) -> None:
    answer = headwater("check", "--offline", good, "--verbose")
    assert (answer.code, "Traceback" in answer.err) == (70, True)


@pytest.mark.usefixtures("broken")
def test_a_fault_as_json(headwater: Headwater, good: Path) -> None:
    answer = headwater("check", "--offline", good, "--json")
    assert (answer.code, answer.err, answer.json["problems"][0]["code"]) == (70, "", "HW-INTERNAL-ERROR")


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
