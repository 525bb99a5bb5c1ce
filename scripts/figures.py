"""The size of the code in figures: files, lines, helpers called once, and modules on the way of a command.

A way is a command on a small pipeline of its own; a module counts when a function of it is called, not when
it is imported. The commands start Spark, so they come last; `--no-walks` leaves them out.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scripts.contract import ROOT

SOURCE = ROOT / "src" / "headwater"
PIPELINE = """
name: walk
sources:
  orders:
    connector: files
    path: in
    format: json
    schema: {shop: string, amount: int}
    bad_rows: quarantine
tables:
  totals: SELECT shop, sum(amount) AS amount FROM orders GROUP BY shop
sinks:
  totals: {reads: totals, connector: console, mode: complete}
"""
TEST = """
pipeline: pipeline.yml
tests:
  totals:
    - feed: {orders: [{shop: north, amount: 1}]}
      expect: {totals: [{shop: north, amount: 1}]}
"""
WALKS = {
    "run": ["run", "pipeline.yml", "--until-idle"],
    "check": ["check", "pipeline.yml"],
    "test": ["test", "totals.test.yml"],
}
TRACER = """
import atexit, json, sys, threading
seen = set()
def importing(frame):
    while frame:
        if frame.f_code.co_name == "_find_and_load":
            return True
        frame = frame.f_back
def note(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("headwater.") and name not in seen and not importing(frame):
        seen.add(name)
sys.setprofile(note)
threading.setprofile(note)
atexit.register(lambda: open(FILE, "w").write(json.dumps(sorted(seen))))
from headwater.cli.main import main
main()
"""


def sources() -> dict[Path, str]:
    """Every module with its text."""
    return {file: file.read_text(encoding="utf-8") for file in sorted(SOURCE.rglob("*.py"))}


def called_once(texts: dict[Path, str]) -> int:
    """Private functions and methods whose name stands twice in their module: at the `def`, and one call."""
    found = 0
    for text in texts.values():
        words = Counter(re.findall(r"\w+", text))
        defined = (node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
        found += sum(words[name] == 2 for name in defined if re.match(r"_[a-z]", name))
    return found


def connectors_outside(texts: dict[Path, str]) -> list[str]:
    """Imports of one connector's modules from elsewhere; shared modules of `connectors` are none, and
    `headwater/__init__.py` is the list of public names."""
    folders = [each.name for each in (SOURCE / "connectors").iterdir() if (each / "__init__.py").exists()]
    own = "|".join(name for name in folders if name != "decoding")
    pattern = re.compile(rf"^\s*from headwater\.connectors\.({own}|catalog|trial)[. ]", re.MULTILINE)
    return [
        str(file.relative_to(SOURCE))
        for file, text in texts.items()
        if file.relative_to(SOURCE).parts[0] not in ("connectors", "__init__.py") and pattern.search(text)
    ]


def modules_of(command: list[str], folder: Path) -> list[str]:
    """The modules of Headwater in which code ran during a command."""
    seen = folder / "modules.json"
    code = TRACER.replace("FILE", repr(str(seen)))
    done = subprocess.run([sys.executable, "-c", code, *command], cwd=folder, capture_output=True, text=True)
    if done.returncode or not seen.exists():
        raise RuntimeError(done.stderr)
    modules: list[str] = json.loads(seen.read_text(encoding="utf-8"))
    return modules


def on_the_pages(texts: dict[Path, str]) -> Iterator[str]:
    """How many modules each page that follows a command names."""
    modules = {str(file.relative_to(SOURCE))[: -len(".py")] for file in texts}
    for page in sorted((ROOT / "docs" / "contribute" / "walks").glob("*.md")):
        named = set(re.findall(r"[a-z_]+(?:/[a-z_]+)+", page.read_text(encoding="utf-8"))) & modules
        yield f"modules that docs/contribute/walks/{page.name} names: {len(named)}"


def walks() -> Iterator[str]:
    """How many modules each command passes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        (folder / "in" / "1.json").write_text('{"shop": "north", "amount": 1}\n{"shop": broken\n')
        (folder / "pipeline.yml").write_text(PIPELINE.lstrip(), encoding="utf-8")
        (folder / "totals.test.yml").write_text(TEST.lstrip(), encoding="utf-8")
        for walk, command in WALKS.items():
            modules = modules_of(command, folder)
            yield f"modules on the walk of `{walk}`: {len(modules)}"
            if "--list" in sys.argv:
                yield "  " + " ".join(each.removeprefix("headwater.") for each in modules)


def main() -> int:
    """Print the figures; `--no-walks` leaves out those that start Spark, `--list` names the modules."""
    texts = sources()
    print(f"files: {len(texts)}")
    print(f"lines: {sum(text.count(chr(10)) for text in texts.values())}")
    print(f"private functions called once: {called_once(texts)}")
    outside = connectors_outside(texts)
    print(f"modules that name a connector outside of its folder: {len(outside)} {' '.join(outside)}")
    for line in on_the_pages(texts):
        print(line)
    if "--no-walks" not in sys.argv:
        for line in walks():
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
