"""Take the picture of a terminal for the README and the docs: real commands in tmux, drawn as SVG.

Run as `python -m scripts.terminal`. It needs tmux. The picture is committed.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from scripts.contract import ROOT

PICTURE = ROOT / "docs" / "pictures" / "run.svg"
COLUMNS, ROWS = 104, 60
COMMANDS = (
    "headwater init wordcount && cd wordcount && clear",
    "headwater check pipeline.yml",
    "headwater run pipeline.yml --until-idle",
)
PROMPT = "$ "
SECONDS = 120.0


class Terminal:
    """A shell in tmux, in its own directory."""

    def __init__(self, home: Path) -> None:
        self._socket = ("tmux", "-S", str(home / "tmux"))
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        shell = ["env", "-i", f"PATH={path}", f"HOME={home}", "TERM=xterm-256color", "LANG=C.UTF-8"]
        shell += [f"PS1={PROMPT}", "bash", "--norc", "--noprofile"]
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        self._tmux("new-session", "-d", *size, "-c", str(home), shlex.join(shell))

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run([*self._socket, *arguments], check=True, capture_output=True, text=True).stdout

    def screen(self) -> str:
        """What the terminal shows, with its colors."""
        return self._tmux("capture-pane", "-e", "-p").rstrip()

    def run(self, command: str) -> None:
        """Type a command and wait for the next prompt."""
        self._tmux("send-keys", command, "Enter")
        deadline = time.monotonic() + SECONDS
        while not (
            (command in self.screen() or "clear" in command)
            and self.screen().splitlines()[-1].rstrip() == PROMPT.rstrip()
        ):
            if time.monotonic() > deadline or not self.screen():
                raise TimeoutError(f"{command} did not finish:\n{self.screen()}")
            time.sleep(0.2)

    def close(self) -> None:
        """End the shell."""
        self._tmux("kill-server")


def main() -> None:
    """Run the commands and draw the screen."""
    with tempfile.TemporaryDirectory(prefix="ada-", ignore_cleanup_errors=True) as home:
        terminal = Terminal(Path(home))
        try:
            for command in COMMANDS:
                terminal.run(command)
            lines = terminal.screen().splitlines()[:-1]
        finally:
            terminal.close()
        shown = "\n".join(lines).replace(home, "/home/ada")
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(shown))
    # The identifier in the class names is random; a fixed one keeps the file the same for the same screen.
    svg = console.export_svg(title="headwater", unique_id="headwater-run")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
