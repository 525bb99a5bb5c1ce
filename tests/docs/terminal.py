"""A terminal for the documentation: types its commands and hands back what they print.

`headwater`, `python` and `pytest` are run inside this process, on the JVM that all pages share; only a broker
and a run that the page shows interrupted or killed get processes of their own. Everything else goes to the
shell.
"""

from __future__ import annotations

import io
import os
import runpy
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from headwater.cli.main import main as headwater
from tests import short_lives
from tests.docs.pages import ANY, INTERRUPTED, KILLED, Command, differences

HOME = "/home/ada"
"""What the pages call the reader's own folder."""
SHELL = {"cat", "cp", "echo", "ls", "mkdir", "mv", "rm"}
LONGEST_SECONDS = 120.0
LAST_LINES_SECONDS = 5.0


class Terminal:
    """The reader's terminal: a folder, an environment, and the exit code of the last command."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = home
        self._patch = patch
        self._patch.chdir(home)
        self.exit_code = 0
        self._serving: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        """Ctrl-C for what serves."""
        for process in self._serving:
            process.send_signal(signal.SIGINT)
        try:
            assert [process.wait(LONGEST_SECONDS) for process in self._serving] == [0] * len(self._serving)
        finally:
            for process in self._serving:
                process.kill()
                process.wait()

    def type(self, command: Command) -> list[str]:
        """Run a command; what is different from the page, or nothing."""
        words = shlex.split(command.text)
        if command.serves:
            return differences(command, self._serve(words, command))
        if command.stopped_by:
            return differences(command, self._real_process(words, command))
        if words[0] in ("cd", "export") or words == ["echo", "$?"]:
            return differences(command, self._built_in(words))
        if words[0] in INSIDE:
            return self._inside(words, command)
        assert words[0] in SHELL, f"{command.place}: {words[0]} is no command of the pages"
        done = subprocess.run(
            ["sh", "-c", command.text],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.exit_code = done.returncode
        return differences(command, self._shown(done.stdout))

    def _built_in(self, words: list[str]) -> list[str]:
        """What a shell does itself: these have no exit code to tell of."""
        shown = [str(self.exit_code)] if words[0] == "echo" else []
        if words[0] == "cd":
            self._patch.chdir(words[1])
        elif words[0] == "export":
            self._patch.setenv(*words[1].split("=", 1))
        self.exit_code = 0
        return shown

    def _inside(self, words: list[str], command: Command) -> list[str]:
        output, file = io.StringIO(), ""
        if ">" in words:
            words, file = words[: words.index(">")], words[words.index(">") + 1]
        with redirect_stdout(output), redirect_stderr(output), _arguments(words):
            self.exit_code = _exit_code(lambda: INSIDE[words[0]](words[1:]))
            if file:
                Path(file).write_text(output.getvalue(), encoding="utf-8")
                return differences(command, [])
            # The console sink's last lines may still be on their way out of the JVM.
            deadline = time.monotonic() + LAST_LINES_SECONDS
            while (found := differences(command, self._shown(output.getvalue()))) and _console(command):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.05)
        return found

    def _real_process(self, words: list[str], command: Command) -> list[str]:
        """Run until the page's lines up to `^C` or `Killed` are there, then do that."""
        place = command.output.index(command.stopped_by)
        before = Command(command.text, (*command.output[:place], ANY), command.place)
        process, output = self._begun(words)
        try:
            self._await(before, process, output)
            process.send_signal({INTERRUPTED: signal.SIGINT, KILLED: signal.SIGKILL}[command.stopped_by])
            code = process.wait(LONGEST_SECONDS)
        finally:
            process.kill()
            process.wait()
        self.exit_code = code if code >= 0 else 128 - code
        return self._shown(output.read_text(encoding="utf-8"))

    def _serve(self, words: list[str], command: Command) -> list[str]:
        """Run until the page's lines are there, and leave it running."""
        process, output = self._begun(words)
        self._serving.append(process)
        self._await(command, process, output)
        return self._shown(output.read_text(encoding="utf-8"))

    def _begun(self, words: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
        """A process of its own, and the file that it prints to."""
        program = str(Path(sys.executable).parent / words[0])
        output = self.home.parent / f"output-{len(self._serving)}"
        with output.open("w", encoding="utf-8") as out:
            environment = {**os.environ, **short_lives.environment()}
            process = subprocess.Popen(
                [program, *words[1:]], env=environment, stdout=out, stderr=subprocess.STDOUT
            )
        return process, output

    def _await(self, command: Command, process: subprocess.Popen[bytes], output: Path) -> None:
        """Until the process has printed what the page says, or has ended, or the time is over."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while differences(command, self._shown(output.read_text(encoding="utf-8"))):
            if process.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(0.05)

    def _shown(self, text: str) -> list[str]:
        return text.replace(str(self.home), HOME).splitlines()


def _console(command: Command) -> bool:
    return any(line.startswith("Batch: ") for line in command.output)


@contextmanager
def _arguments(words: list[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = words if words[0] == "headwater" else words[1:]
    try:
        yield
    finally:
        sys.argv = before


def _exit_code(call: Callable[[], object]) -> int:
    try:
        call()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _script(file: str) -> None:
    """As `python file` runs it: beside it the script finds its own modules first."""
    folder = os.path.dirname(os.path.abspath(file))
    sys.path.insert(0, folder)
    try:
        runpy.run_path(file, run_name="__main__")
    finally:
        sys.path.remove(folder)


def _tests(words: list[str]) -> None:
    """As `pytest` runs in a folder that has no settings of its own."""
    sys.exit(pytest.main(["-p", "no:cacheprovider", "--color=no", *words]))


INSIDE: dict[str, Callable[[list[str]], object]] = {
    "headwater": lambda words: headwater(),
    "python": lambda words: _script(words[0]),
    "pytest": _tests,
}
"""What needs no process of its own."""
