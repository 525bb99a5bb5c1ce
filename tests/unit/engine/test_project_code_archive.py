"""The archive that takes a project's modules to the executors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from headwater.engine.project_code import ProjectCode, driver_path


def project(root: Path, files: dict[str, str]) -> ProjectCode:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return ProjectCode.of(root, [root / "alerts.py"])


class Context:
    """Stands in for a SparkContext: remembers what it was given."""

    def __init__(self) -> None:
        self.listFiles: list[str] = []
        self.shipped: list[Path] = []

    def addPyFile(self, path: str) -> None:
        self.shipped.append(Path(path))
        self.listFiles.append(f"spark://host:1234/files/{Path(path).name}")


class TestArchive:
    """The zip is all that another Python needs."""

    FILES = {
        "lib/__init__.py": "",
        "lib/rules.py": "LIMIT = 7\ndef over(x): return x > LIMIT\n",
        "deep/base.py": "BASE = 5\n",
        "alerts.py": """\
            import lib.rules
            from deep.base import BASE

            def value():
                from lib.rules import over
                return [over(8), over(7), BASE]

            def fails():
                return 1 / 0
            """,
    }

    def run(self, archive: Path, cwd: Path, script: str) -> Any:
        command = [sys.executable, "-I", "-S", "-c", textwrap.dedent(script), str(archive)]
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, timeout=60)
        return json.loads(done.stdout)

    @pytest.mark.feature("C1.3", part="the archive is all that another Python needs")
    def test_another_python_imports_it_with_nothing_else(self, tmp_path: Path) -> None:
        code = project(tmp_path / "project", self.FILES)
        archive = code.archive(tmp_path / "out")
        script = f"""
            import importlib, json, sys, traceback
            sys.path.insert(0, sys.argv[1])
            module = importlib.import_module("{code.name}.alerts")
            try:
                module.fails()
            except ZeroDivisionError as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
            print(json.dumps([module.value(), last.filename, last.lineno, "headwater" in sys.modules]))
            """
        for file in (tmp_path / "project").rglob("*.py"):
            file.unlink()
        told = self.run(archive, tmp_path, script)
        assert told == [[True, False, 5], str(tmp_path / "project/alerts.py"), 9, False]

    def test_the_same_code_gives_the_same_bytes(self, tmp_path: Path) -> None:
        root = project(tmp_path / "project", self.FILES).root
        script = (
            "import sys, decimal, hashlib; from pathlib import Path; root = Path(sys.argv[1]);"
            "from headwater.engine.project_code import ProjectCode;"
            "code = ProjectCode.of(root, [root / 'alerts.py']); value = over = lib = 'value';"
            "print(hashlib.sha256(code.archive(root / 'out').read_bytes()).hexdigest())"
        )
        command = [sys.executable, "-c", script, str(root)]
        source = Path(sys.modules["headwater"].__path__[0]).parent
        made = {
            subprocess.run(
                command,
                env={"PYTHONPATH": str(source), "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
            for seed in ("1", "2")
        }
        assert len(made) == 1

    def test_it_is_shipped_once_per_context(self, tmp_path: Path) -> None:
        code = project(tmp_path, self.FILES)
        first, second = Context(), Context()
        for context in (first, first, second):
            code.ship(context)
        assert [file.name for file in first.shipped] == [f"{code.name}.zip"]
        assert first.shipped == second.shipped
        assert first.shipped[0].is_file()

    def test_a_process_on_the_driver_that_gets_no_files_finds_it_too(self, tmp_path: Path) -> None:
        one, two = project(tmp_path / "one", self.FILES), project(tmp_path / "two", self.FILES)
        one.ship(Context())
        path = driver_path()
        two.ship(Context())
        # Spark tells its Python workers apart by their environment: one path for all projects.
        assert driver_path() == path
        command = [sys.executable, "-c", f"import {one.name}.alerts, {two.name}.alerts"]
        subprocess.run(command, env={"PYTHONPATH": os.pathsep.join(path)}, check=True, timeout=60)
