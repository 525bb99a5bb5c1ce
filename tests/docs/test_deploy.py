"""The files of examples/deploy agree with the code: commands, exit codes, and how long a stop can take."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from headwater.cli.main import app
from headwater.errors import CheckpointError, HeadwaterError
from headwater.errors.catalogue.running import CHECKPOINT_LOCKED
from headwater.runtime import RunOptions
from tests.docs.pages import DOCS, ROOT, blocks

DEPLOY = ROOT / "examples" / "deploy"
FILES = sorted(path for path in DEPLOY.iterdir() if path.is_file())
PAGES = [DOCS / "operate" / name for name in ("deploy.md", "deploy-cluster.md", "schedule.md")]
RETRY_ROW = re.compile(r"^\| (\d+) \|[^|]*\| (yes|no)\b", re.MULTILINE)
SECONDS = 30


def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    # systemd distinguishes upper and lower case.
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "headwater.service", encoding="utf-8")
    return parser


def exit_codes(error: type[HeadwaterError] = HeadwaterError) -> Iterator[int]:
    yield error.exit_code
    for each in error.__subclasses__():
        yield from exit_codes(each)


def commands_of(file: Path) -> Iterator[list[str]]:
    """The words of each `headwater run …` in a file, as a shell command or as a list."""
    text = re.sub(r"[][\",;{}()]", " ", file.read_text(encoding="utf-8"))
    for found in re.finditer(r"\brun +pipeline\.yml(?: +--[a-z-]+)*", text):
        yield found[0].split()


def test_the_pages_show_every_file() -> None:
    shown = {
        block.title: block.text
        for page in PAGES
        for block in blocks(page)
        if block.title.startswith("examples/")
    }
    assert shown == {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_commands_exist_with_their_options(file: Path) -> None:
    found = list(commands_of(file))
    assert found or file.name == "headwater_main.py"
    for name, *words in found:
        command: Any = get_command(app).commands[name]  # type: ignore[attr-defined]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known


def test_systemd_lets_the_current_batch_commit() -> None:
    service = unit()["Service"]
    assert service["KillSignal"] == "SIGTERM"
    # With control-group, systemd would send SIGTERM to the JVM as well and interrupt the batch.
    assert service["KillMode"] == "mixed"
    assert float(service["TimeoutStopSec"]) > RunOptions.stop_seconds
    assert service["ExecStart"].split()[0] == f"{service['WorkingDirectory']}/.venv/bin/headwater"
    assert "--fail-fast" in service["ExecStart"].split()


def test_systemd_restarts_what_a_retry_can_fix() -> None:
    service = unit()["Service"]
    table = dict(RETRY_ROW.findall((DOCS / "operate" / "deploy.md").read_text(encoding="utf-8")))
    assert {int(code) for code in table} == {0, 70, *exit_codes()}
    never = {code for code, retry in table.items() if retry == "no"}
    assert service["Restart"] == "on-failure"
    assert {*service["RestartPreventExitStatus"].split(), "0"} == never


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "headwater.service").read_text(encoding="utf-8")
    copy = tmp_path / "headwater.service"
    program = shlex.quote(sys.executable)
    copy.write_text(text.replace("/opt/orders/.venv/bin/headwater", program), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if copy.name in line]) == (0, [])


def test_kubernetes_runs_one_pod_and_waits_for_it() -> None:
    deployment = YAML(typ="safe").load(DEPLOY / "deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert pod["terminationGracePeriodSeconds"] > RunOptions.stop_seconds
    mounted = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    volumes = re.search(r"^VOLUME (.*)$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert volumes
    assert mounted == set(YAML(typ="safe").load(volumes[1]))


def test_the_container_forwards_signals() -> None:
    """In the shell form, a shell would be PID 1 and keep SIGTERM to itself."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r'^ENTRYPOINT \["tini", "--", "headwater"\]$', text, re.MULTILINE)
    assert re.search(r'^CMD \["run", ', text, re.MULTILINE)


def test_python_files_compile_and_scripts_parse() -> None:
    for file in FILES:
        if file.suffix == ".py":
            compile(file.read_text(encoding="utf-8"), str(file), "exec")
    subprocess.run(["sh", "-n", str(DEPLOY / "submit.sh")], check=True, timeout=SECONDS)


LOCKED = f"error {CHECKPOINT_LOCKED.code}"


@pytest.mark.parametrize(
    ("exit_code", "error", "mailed"),
    [
        (0, "a warning", False),
        (4, LOCKED, False),
        (4, "unreadable", True),
        (1, "failed", True),
        (3, "wrong", True),
    ],
)
def test_cron_mails_errors_but_not_the_lock(exit_code: int, error: str, mailed: bool, tmp_path: Path) -> None:
    lines = (DEPLOY / "crontab").read_text(encoding="utf-8").splitlines()
    (job,) = [line for line in lines if line and line[0] in "*0123456789"]
    command = job.split(maxsplit=5)[5]
    assert "%" not in command  # cron reads it as the end of the command
    project = tmp_path / "orders"
    project.mkdir()
    program = tmp_path / "headwater"
    program.write_text(f"#!/bin/sh\necho done\necho {error} >&2\nexit {exit_code}\n", encoding="utf-8")
    program.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", command.replace("/opt/orders", str(project))],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.stdout, done.stderr) == (f"{error}\n" if mailed else "", "")
    assert (project / "cron.log").read_text(encoding="utf-8") == "done\n"


def test_airflow_skips_a_run_while_another_is_active() -> None:
    text = (DEPLOY / "dag.py").read_text(encoding="utf-8")
    assert re.search(rf"\bskip_on_exit_code={CheckpointError.exit_code}\b", text)
    assert "catchup=False" in text
