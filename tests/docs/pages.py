"""Documentation pages as a reader would follow them: files to make and commands to type, in order.

- A block with a title (```yaml title="pipeline.yml") is a file of the reader's folder.
- A block of kind `console` holds commands, each after `$ `, and below each what it prints. A line `…` stands
  for any lines, and `…` inside a line for any text. `^C` and `Killed` stand where a run was interrupted or
  killed. A server (`headwater dev …`) runs until the end of the page.
- Blocks of kind `sh` hold what is typed outside of a pipeline's folder, such as `pip install`.
- Every other block only shows something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ANY = "…"
INTERRUPTED, KILLED = "^C", "Killed"

_FENCE = re.compile(
    r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)\s*$", re.DOTALL | re.MULTILINE
)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    kind: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command, and what the page says that it prints."""

    text: str
    output: tuple[str, ...]
    place: str

    @property
    def stopped_by(self) -> str:
        """`^C` or `Killed` where the page shows that; such a run takes a process of its own."""
        return next((line for line in self.output if line in (INTERRUPTED, KILLED)), "")

    @property
    def serves(self) -> bool:
        """Whether the reader leaves it to itself and types on in another terminal."""
        words = self.text.split()
        starts = words[:3] in (["headwater", "dev", "kafka"], ["headwater", "dev", "postgres"])
        return starts and "--bootstrap-server" not in self.text


_BUSY = re.compile(r" … \d+ s$|Waiting for the JVM of the previous run")


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    for match in _FENCE.finditer(text):
        words, title = match["info"].split(), _TITLE.search(match["info"])
        line = text.count("\n", 0, match.start()) + 1
        yield Block(name, line, words[0] if words else "", title[1] if title else "", match["text"])


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    typed, began = "", block.line
    output: list[str] = []
    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if line.startswith("$ "):
            if typed:
                yield Command(typed, tuple(output), f"{block.page}:{began}")
            typed, output, began = line[2:], [], number
        else:
            assert typed, f"{block.page}:{number}: a console block begins with a command"
            output.append(line)
    if typed:
        yield Command(typed, tuple(output), f"{block.page}:{began}")


def differences(command: Command, shown: list[str]) -> list[str]:
    """Nothing if the command printed what the page says; else both, for a message."""
    said = [normal(line) for line in command.output if line not in (INTERRUPTED, KILLED)]
    # Only a slow start says what it is busy with.
    printed = [normal(line) for line in shown if not _BUSY.search(line)]
    same = _same_by_query if command.text.split()[:2] == ["headwater", "run"] else _same
    if same(said, printed):
        return []
    return [f"{command.place}: $ {command.text}", "--- the page says", *said, "--- it printed", *shown]


def normal(line: str) -> str:
    """A line without what is another at each run: times of day, durations, ids, the version of Spark."""
    line = re.sub(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ", "<time> ", line.rstrip())
    line = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<id>", line)
    line = re.sub(r"\b\d+ ms\b", "<n> ms", line)
    return re.sub(r"\bSpark \d+\.\d+\.\d+", "Spark <version>", line)


def _same(said: list[str], printed: list[str]) -> bool:
    lines = ("(?:.*\n)*" if line == ANY else _pattern(line) + "\n" for line in _trimmed(said))
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in _trimmed(printed))) is not None


def _same_by_query(said: list[str], printed: list[str]) -> bool:
    """Queries are independent: the lines of each come in order, but not those of one before another's."""
    gaps = ANY in said
    wanted, found = _grouped(said), _grouped(printed)
    if not gaps and wanted.keys() != found.keys():
        return False
    return all(_follow(lines, found.get(query, []), gaps=gaps) for query, lines in wanted.items())


def _grouped(lines: list[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for line in lines:
        if line and line != ANY:
            groups.setdefault(_query(line), []).append(line)
    return groups


def _query(line: str) -> str:
    if re.match(r"[-+|]|Batch: ", line):
        return "console"
    named = re.match(r"(?:<time>|…) (\w+): ", line)
    return named[1] if named else ""


def _follow(said: list[str], printed: list[str], *, gaps: bool) -> bool:
    """Whether the lines said are those printed, in this order; with gaps, among those printed."""
    if not gaps:
        return len(said) == len(printed) and all(map(_fits, said, printed))
    rest = iter(printed)
    return all(any(_fits(line, each) for each in rest) for line in said)


def _fits(said: str, printed: str) -> bool:
    return re.fullmatch(_pattern(said), printed) is not None


def _pattern(line: str) -> str:
    return re.escape(line).replace(re.escape(ANY), ".*")


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines
