"""The size of the code: files, lines, helpers called once, and modules that each command uses.

Each command runs on a small pipeline. A module counts if one of its functions is called, not if it is only imported.
The commands start Spark, so they run last; `--no-walks` skips them.
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
    """Private functions and methods whose name occurs twice in their module: in the `def` and in one call."""
    found = 0
    for text in texts.values():
        words = Counter(re.findall(r"\w+", text))
        defined = (node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
        found += sum(words[name] == 2 for name in defined if re.match(r"_[a-z]", name))
    return found


def connectors_outside(texts: dict[Path, str]) -> list[str]:
    """Modules outside `connectors` that import the modules of one connector. Shared modules of `connectors` and
    the public names in `headwater/__init__.py` do not count."""
    folders = [each.name for each in (SOURCE / "connectors").iterdir() if (each / "__init__.py").exists()]
    own = "|".join(name for name in folders if name != "decoding")
    pattern = re.compile(rf"^\s*from headwater\.connectors\.({own}|catalog|trial)[. ]", re.MULTILINE)
    return [
        str(file.relative_to(SOURCE))
        for file, text in texts.items()
        if file.relative_to(SOURCE).parts[0] not in ("connectors", "__init__.py") and pattern.search(text)
    ]


def modules_of(command: list[str], folder: Path) -> list[str]:
    """The modules of Headwater that a command uses."""
    seen = folder / "modules.json"
    code = TRACER.replace("FILE", repr(str(seen)))
    done = subprocess.run([sys.executable, "-c", code, *command], cwd=folder, capture_output=True, text=True)
    if done.returncode or not seen.exists():
        raise RuntimeError(done.stderr)
    modules: list[str] = json.loads(seen.read_text(encoding="utf-8"))
    return modules


def on_the_pages(texts: dict[Path, str]) -> Iterator[str]:
    """The number of modules that each walkthrough names."""
    modules = {str(file.relative_to(SOURCE))[: -len(".py")] for file in texts}
    for page in sorted((ROOT / "docs" / "contribute" / "walks").glob("*.md")):
        named = set(re.findall(r"[a-z_]+(?:/[a-z_]+)+", page.read_text(encoding="utf-8"))) & modules
        yield f"modules in docs/contribute/walks/{page.name}: {len(named)}"


def walks() -> Iterator[str]:
    """The number of modules that each command uses."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        (folder / "in" / "1.json").write_text('{"shop": "north", "amount": 1}\n{"shop": broken\n')
        (folder / "pipeline.yml").write_text(PIPELINE.lstrip(), encoding="utf-8")
        (folder / "totals.test.yml").write_text(TEST.lstrip(), encoding="utf-8")
        for walk, command in WALKS.items():
            modules = modules_of(command, folder)
            yield f"modules that `{walk}` uses: {len(modules)}"
            if "--list" in sys.argv:
                yield "  " + " ".join(each.removeprefix("headwater.") for each in modules)


def main() -> int:
    """Print the numbers; `--no-walks` skips those that start Spark, `--list` also prints the modules."""
    texts = sources()
    print(f"files: {len(texts)}")
    print(f"lines: {sum(text.count(chr(10)) for text in texts.values())}")
    print(f"private functions called once: {called_once(texts)}")
    outside = connectors_outside(texts)
    print(f"modules outside `connectors` that import a connector: {len(outside)} {' '.join(outside)}")
    for line in on_the_pages(texts):
        print(line)
    if "--no-walks" not in sys.argv:
        for line in walks():
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
