"""Questions that style asks of the source, held without exceptions."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "headwater"
TOP = SOURCE / "__init__.py"
FILES = sorted(SOURCE.rglob("*.py"))

LONGEST_FILE = 500
LONGEST_FUNCTION = 50
EMPTY_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def place(file: Path, line: int = 1) -> str:
    return f"{file.relative_to(ROOT).as_posix()}:{line}"


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def test_there_is_source_to_ask() -> None:
    assert FILES


def test_no_file_is_too_long() -> None:
    lengths = {place(file): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {file: length for file, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_function_is_too_long() -> None:
    lengths = {
        place(file, node.lineno): _length(node)
        for file in FILES
        for node in ast.walk(parse(file))
        if isinstance(node, Function)
    }
    assert {function: length for function, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def _length(node: Function) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_every_name_says_something() -> None:
    names = {place(file): {*file.relative_to(SOURCE).with_suffix("").parts} for file in FILES}
    assert [file for file, parts in names.items() if parts & EMPTY_NAMES] == []


def test_a_unit_test_is_named_for_the_module_that_it_tests() -> None:
    folder = ROOT / "tests" / "unit"
    tests = [file.relative_to(folder).with_suffix("") for file in folder.rglob("test_*.py")]
    modules = {file.relative_to(SOURCE).with_suffix("") for file in (*FILES, *SOURCE.rglob("*/"))}

    def is_named(test: Path) -> bool:
        """`test_lock_processes.py` is about processes in `lock.py`."""
        words = test.name.split("_")[1:]
        return any(test.with_name("_".join(words[:count])) in modules for count in range(1, len(words) + 1))

    assert [test.as_posix() for test in tests if not is_named(test)] == []


def test_every_module_and_class_says_what_it_is_for() -> None:
    silent = [
        place(file, getattr(node, "lineno", 1))
        for file in FILES
        for node in ast.walk(parse(file))
        if isinstance(node, ast.Module | ast.ClassDef) and not ast.get_docstring(node)
    ]
    assert silent == []


def test_init_holds_names_only() -> None:
    others = [
        f"{place(file, node.lineno)}: {ast.unparse(node)}"
        for file in FILES
        if file.name == "__init__.py"
        for node in parse(file).body
        if not _is_names(node, top=file == TOP)
    ]
    assert others == []


def _is_names(node: ast.stmt, top: bool) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[]):
            return all(isinstance(inner, ast.Import | ast.ImportFrom) for inner in body)
        # Only the top package loads its names late, from a table of where they live.
        case ast.FunctionDef(name="__getattr__" | "__dir__"):
            return top
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return top and _is_literal(value)
        case _:
            return False


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


OFFLINE = """
import sys
from pathlib import Path
import headwater
from headwater.api.check import check
for name in sys.argv[1:]:
    check(Path(name), offline=True)
sys.exit(", ".join(sorted({"pyspark", "py4j"} & set(sys.modules))) or None)
"""


def test_importing_loading_and_the_offline_check_import_no_spark() -> None:
    pipelines = [str(file) for file in sorted((ROOT / "examples").glob("*/pipeline.yml"))]
    assert pipelines
    ran = subprocess.run([sys.executable, "-c", OFFLINE, *pipelines], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


RUN_DIRECTORY = SOURCE / "run_directory.py"
JOINS = {"Path", "joinpath"}
OTHER_PLACES = {"dev kafka": SOURCE / "cli" / "dev.py"}
"""Directories of the same name elsewhere."""


def _texts(*nodes: ast.AST) -> list[str]:
    constants = [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return [each.value for each in constants if isinstance(each.value, str)]


def _joined(node: ast.AST) -> list[str]:
    """The texts that an expression joins to a path."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in JOINS:
        parts = node.args
    found = _texts(*(part for part in parts if isinstance(part, ast.Constant | ast.JoinedStr)))
    return found if len(parts) > 1 else [text for text in found if "/" in text]


def test_only_run_directory_joins_its_paths() -> None:
    """Its names stand in constants there; nobody else has one of them in a path."""
    assigned = [node.value for node in parse(RUN_DIRECTORY).body if isinstance(node, ast.Assign)]
    names = {*_texts(*assigned)}
    assert {"checkpoints", "quarantine", "queries", "validated_files"} <= names
    found = [
        place(file, node.lineno)
        for file in FILES
        if file != RUN_DIRECTORY and file not in OTHER_PLACES.values()
        for node in ast.walk(parse(file))
        if isinstance(node, ast.expr) and names & {part for text in _joined(node) for part in text.split("/")}
    ]
    assert found == []
