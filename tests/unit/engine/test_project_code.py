"""A project's modules under its own name: which are needed, how they load, what the archive holds."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from headwater.engine.project_code import ProjectCode
from headwater.errors import PipelineError, Problem
from headwater.values.user_frames import Position

part = pytest.mark.feature("C1.3", part="modules load and pack under the project's name")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return root


def project(root: Path, *entries: str) -> ProjectCode:
    return ProjectCode.of(root, [root / entry for entry in entries])


def load(root: Path, entry: str) -> ModuleType:
    return project(root, entry).load(root / entry)


def problem(root: Path, entry: str) -> Problem:
    """The one problem that reading and loading the entry has."""
    with pytest.raises(PipelineError) as error:
        load(root, entry)
    (only,) = error.value.problems
    return only


def names(code: ProjectCode) -> list[str]:
    return [file.relative_to(code.root).as_posix() for file in code.files]


RULES = {
    "lib/__init__.py": "GREETING = 'hello'\n",
    "lib/rules.py": "LIMIT = 7\ndef over(x): return x > LIMIT\n",
}

FORMS = [
    (["import lib.rules"], "(lib.rules.LIMIT, lib.GREETING)"),
    (["import lib.rules as r, lib"], "(r.LIMIT, lib.GREETING)"),
    (["import json, lib.rules, os.path"], "(lib.rules.LIMIT, json.loads('\"hello\"'))"),
    (["from lib.rules import LIMIT as limit", "from lib import GREETING"], "(limit, GREETING)"),
    (["from lib import rules, GREETING"], "(rules.LIMIT, GREETING)"),
    (["from .lib import rules", "from . import lib"], "(rules.LIMIT, lib.GREETING)"),
    (["from .lib.rules import LIMIT", "from lib import GREETING as g"], "(LIMIT, g)"),
]


class TestImports:
    """Every form of an import of a project module gives what it gives in plain Python."""

    @part
    @pytest.mark.parametrize(("statements", "expression"), FORMS)
    def test_at_the_top_of_a_file(self, tmp_path: Path, statements: list[str], expression: str) -> None:
        lines = [*statements, "def value():", f"    return {expression}"]
        write(tmp_path, {**RULES, "alerts.py": "\n".join(lines)})
        module = load(tmp_path, "alerts.py")
        assert module.value() == (7, "hello")
        assert [name for name in vars(module) if name.startswith("hw_")] == []

    @part
    @pytest.mark.parametrize(("statements", "expression"), FORMS)
    def test_inside_a_function(self, tmp_path: Path, statements: list[str], expression: str) -> None:
        lines = ["def value():", *(f"    {line}" for line in statements), f"    return {expression}"]
        write(tmp_path, {**RULES, "alerts.py": "\n".join(lines)})
        assert load(tmp_path, "alerts.py").value() == (7, "hello")

    def test_star(self, tmp_path: Path) -> None:
        write(tmp_path, {**RULES, "alerts.py": "from lib import *\nfrom lib.rules import *\n"})
        module = load(tmp_path, "alerts.py")
        assert (module.LIMIT, module.GREETING) == (7, "hello")

    @part
    def test_only_what_is_imported_counts(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            {**RULES, "alerts.py": "def f():\n    from lib.rules import over\n", "other.py": "syntax error"},
        )
        assert names(project(tmp_path, "alerts.py")) == ["alerts.py", "lib/__init__.py", "lib/rules.py"]

    def test_names_in_all_count_for_a_star_import(self, tmp_path: Path) -> None:
        write(tmp_path, {"lib/__init__.py": "__all__ = ['rules']\n", "lib/rules.py": "LIMIT = 7\n"})
        write(tmp_path, {"alerts.py": "from lib import *\nvalue = rules.LIMIT\n"})
        assert load(tmp_path, "alerts.py").value == 7

    def test_a_folder_without_init_and_parents_of_a_nested_entry(self, tmp_path: Path) -> None:
        write(tmp_path, {"deep/er/rules.py": "from ..base import LIMIT\n", "deep/base.py": "LIMIT = 7\n"})
        write(tmp_path, {"jobs/__init__.py": "STARTED = True\n"})
        write(tmp_path, {"jobs/alerts.py": "import deep.er.rules\nfrom . import STARTED\n"})
        code = project(tmp_path, "jobs/alerts.py")
        module = code.load(tmp_path / "jobs/alerts.py")
        assert names(code) == ["deep/base.py", "deep/er/rules.py", "jobs/__init__.py", "jobs/alerts.py"]
        assert (module.deep.er.rules.LIMIT, module.STARTED) == (7, True)

    def test_modules_that_import_each_other(self, tmp_path: Path) -> None:
        write(tmp_path, {"a.py": "import b\ndef one(): return 1\ndef two(): return b.two()\n"})
        write(tmp_path, {"b.py": "import a\nimport a as again\ndef two(): return a.one() + again.one()\n"})
        assert load(tmp_path, "a.py").two() == 2

    def test_a_folder_with_an_installed_name_is_not_the_projects(self, tmp_path: Path) -> None:
        write(tmp_path, {"json/data.py": "", "alerts.py": "import json, sys\n"})
        module = load(tmp_path, "alerts.py")
        assert (module.json is json, module.sys is sys) == (True, True)

    def test_a_module_may_have_an_installed_name(self, tmp_path: Path) -> None:
        write(tmp_path, {"json.py": "LIMIT = 7\n", "sys.py": "raise RuntimeError\n"})
        write(tmp_path, {"alerts.py": "import json, sys\n"})
        module = load(tmp_path, "alerts.py")
        assert (module.json.LIMIT, module.sys is sys) == (7, True)

    def test_future_docstring_and_type_checking_stay(self, tmp_path: Path) -> None:
        text = '''\
            """What it does."""
            from __future__ import annotations
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from lib.rules import LIMIT
            try:
                from lib import nothing
            except ImportError:
                nothing = None
            def f(x: Unknown) -> None: ...
            '''
        write(tmp_path, {**RULES, "alerts.py": text})
        module = load(tmp_path, "alerts.py")
        assert (module.__doc__, module.f.__annotations__["x"]) == ("What it does.", "Unknown")
        assert module.nothing is None
        assert not hasattr(module, "LIMIT")

    def test_our_own_future_imports_do_not_leak(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "def f(x: int) -> None: ...\n"})
        assert load(tmp_path, "alerts.py").f.__annotations__["x"] is int

    def test_nothing_is_written_beside_the_users_files(self, tmp_path: Path) -> None:
        write(tmp_path, {**RULES, "alerts.py": "import lib.rules\n"})
        load(tmp_path, "alerts.py")
        assert list(tmp_path.rglob("__pycache__")) == []

    def test_an_encoding_line_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "alerts.py").write_bytes("# coding: latin-1\nname = 'é'\n".encode("latin-1"))
        assert load(tmp_path, "alerts.py").name == "é"


class TestName:
    """The name tells projects and versions of one project apart."""

    @part
    def test_a_changed_file_gives_a_new_name_and_new_code(self, tmp_path: Path) -> None:
        write(tmp_path, {**RULES, "alerts.py": "from lib import rules\n"})
        before = project(tmp_path, "alerts.py")
        old = before.load(tmp_path / "alerts.py")
        write(tmp_path, {"lib/rules.py": "LIMIT = 8\n"})
        after = project(tmp_path, "alerts.py")
        new = after.load(tmp_path / "alerts.py")
        assert before.name != after.name
        assert (old.rules.LIMIT, new.rules.LIMIT) == (7, 8)

    def test_unchanged_files_keep_name_and_module(self, tmp_path: Path) -> None:
        write(tmp_path, {**RULES, "alerts.py": "import lib.rules\n", "other.py": ""})
        module = load(tmp_path, "alerts.py")
        write(tmp_path, {"other.py": "CHANGED = True\n"})
        assert load(tmp_path, "alerts.py") is module

    @part
    def test_two_projects_never_see_each_others_modules(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            write(tmp_path / name, {"alerts.py": "def name():\n    import lib\n    return lib.NAME\n"})
            write(tmp_path / name, {"lib.py": f"NAME = '{name}'\n"})
        modules = [load(tmp_path / name, "alerts.py") for name in ("one", "two")]
        assert [module.name() for module in modules] == ["one", "two"]
        assert "lib" not in sys.modules

    def test_code_is_what_it_was_when_it_was_read(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            {**RULES, "alerts.py": "def limit():\n    from lib import rules\n    return rules.LIMIT\n"},
        )
        code = project(tmp_path, "alerts.py")
        module = code.load(tmp_path / "alerts.py")
        write(tmp_path, {"lib/rules.py": "LIMIT = 8\n"})
        (tmp_path / "alerts.py").unlink()
        assert module.limit() == 7
        assert code.load(tmp_path / "alerts.py") is module

    def test_a_link_to_the_folder_leads_to_the_same_files(self, tmp_path: Path) -> None:
        root = write(tmp_path / "real", {"alerts.py": ""})
        (tmp_path / "link").symlink_to(root)
        assert names(ProjectCode.of(root, [tmp_path / "link" / "alerts.py"])) == ["alerts.py"]


class TestProblems:
    """What is wrong in a user's file is said at its line, from the catalogue."""

    def test_problems_of_several_files_come_together(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "import lib\n\nreturn 1\n", "lib.py": "x = = 1\n"})
        with pytest.raises(PipelineError) as error:
            project(tmp_path, "alerts.py", "alrets.py")
        places = [(found.code, found.place and found.place.line) for found in error.value.problems]
        assert sorted(places, key=str) == [("HW-CODE-FILE-NOT-FOUND", None), ("HW-CODE-SYNTAX", 3)]

    def test_syntax_error_in_an_imported_file(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "import lib\n", "lib.py": "y = 1\nx = = 1\n"})
        found = problem(tmp_path, "alerts.py")
        assert (found.code, found.place) == ("HW-CODE-SYNTAX", Position(str(tmp_path / "lib.py"), 2, 5))

    @pytest.mark.parametrize(
        ("content", "line"),
        [(b"x = 1\ny = '\xe9'\n", 2), (b"# coding: nonsense\n", 1), (b"x = '\xff\xfe'\n", 1)],
    )
    def test_wrong_encoding(self, tmp_path: Path, content: bytes, line: int) -> None:
        (tmp_path / "alerts.py").write_bytes(content)
        found = problem(tmp_path, "alerts.py")
        assert (found.code, found.place) == (
            "HW-CODE-ENCODING-INVALID",
            Position(str(tmp_path / "alerts.py"), line),
        )

    def test_null_bytes(self, tmp_path: Path) -> None:
        (tmp_path / "alerts.py").write_bytes(b"x = 1\0\n")
        assert problem(tmp_path, "alerts.py").code == "HW-CODE-SYNTAX"

    def test_outside_the_root_and_names_no_module_can_have(self, tmp_path: Path) -> None:
        write(
            tmp_path, {"other/alerts.py": "", "root/a.b.py": "", "root/__init__.py": "", "root/run.txt": ""}
        )
        root = tmp_path / "root"
        assert problem(root, "../other/alerts.py").code == "HW-CODE-OUTSIDE-PROJECT"
        assert problem(root, "a.b.py").code == "HW-CODE-FILE-NAME-INVALID"
        assert problem(root, "__init__.py").code == "HW-CODE-FILE-NAME-INVALID"
        assert problem(root, "run.txt").code == "HW-CODE-FILE-NAME-INVALID"

    def test_an_exception_at_load_is_told_at_the_users_innermost_line(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "import lib\n", "lib.py": "import json\n\nx = json.loads('{')\n"})
        found = problem(tmp_path, "alerts.py")
        assert (found.code, found.place) == ("HW-CODE-FAILED", Position(str(tmp_path / "lib.py"), 3))
        assert str(found.params["exception"]).startswith("JSONDecodeError: Expecting property name")
        assert "hw_" not in str(found)
        first, second, *_ = [line for line in found.detail.splitlines() if line.startswith("  File")]
        assert (str(tmp_path / "alerts.py") in first, str(tmp_path / "lib.py") in second) == (True, True)

    def test_leaving_python_at_load_is_an_error_too(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "raise SystemExit\n"})
        found = problem(tmp_path, "alerts.py")
        assert (found.code, found.params) == ("HW-CODE-FAILED", {"exception": "SystemExit"})

    @pytest.mark.parametrize(
        ("call", "where", "key", "new"),
        [
            ('hw.kafka(servers="a:1", topic="t")', "`kafka()`", "servers", "bootstrap_servers"),
            ('hw.Pipeline("p", folder="x")', "`Pipeline()`", "folder", "run_dir"),
            ('hw.expect("a > 0", otherwise="drop")', "`expect()`", "otherwise", "on_violation"),
            (
                'hw.Pipeline("p").sink("s", hw.noop(), reads="a", accept={})',
                "`Pipeline.sink()`",
                "accept",
                "suppress",
            ),
        ],
    )
    def test_a_renamed_parameter_gives_its_new_name(
        self, tmp_path: Path, call: str, where: str, key: str, new: str
    ) -> None:
        write(tmp_path, {"alerts.py": f"import headwater as hw\n\n{call}\n"})
        found = problem(tmp_path, "alerts.py")
        assert (found.code, found.place) == ("HW-KEY-RENAMED", Position(str(tmp_path / "alerts.py"), 3))
        assert found.params == {"where": where, "key": key, "new": new, "form": new}

    def test_a_function_of_the_user_may_have_such_a_parameter(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "def read(path): ...\n\n\nread(folder=1)\n"})
        assert problem(tmp_path, "alerts.py").code == "HW-CODE-FAILED"

    def test_a_name_that_was_never_a_parameter_of_a_call_is_not_renamed(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "import headwater as hw\n\nhw.console(partitions=3)\n"})
        assert problem(tmp_path, "alerts.py").code == "HW-CODE-FAILED"

    def test_headwaters_own_errors_pass(self, tmp_path: Path) -> None:
        text = """
            from headwater.errors import Entry, PipelineError
            raise PipelineError(Entry("s.", "r.", code="HW-X").at())
            """
        write(tmp_path, {"alerts.py": text})
        assert problem(tmp_path, "alerts.py").code == "HW-X"

    @pytest.mark.parametrize("text", ["import no_such_thing\n", "from lib import no_such_thing_either\n"])
    def test_a_name_that_is_nowhere(self, tmp_path: Path, text: str) -> None:
        write(tmp_path, {**RULES, "alerts.py": text})
        found = problem(tmp_path, "alerts.py")
        place = Position(str(tmp_path / "alerts.py"), 1)
        expected = {
            "import no_such_thing\n": ("HW-CODE-NOT-INSTALLED", {"module": "no_such_thing"}),
            "from lib import no_such_thing_either\n": (
                "HW-CODE-FAILED",
                {
                    "exception": "ImportError: cannot import name 'no_such_thing_either' from 'lib' "
                    f"({tmp_path / 'lib/__init__.py'})"
                },
            ),
        }[text]
        assert (found.code, found.params, found.place) == (*expected, place)

    def test_a_missing_submodule_of_the_project(self, tmp_path: Path) -> None:
        write(tmp_path, {**RULES, "alerts.py": "import lib.ruls\n"})
        found = problem(tmp_path, "alerts.py")
        assert (found.code, found.params) == ("HW-CODE-NOT-INSTALLED", {"module": "lib.ruls"})

    @pytest.mark.parametrize(
        "call", ["import_module('lib.rules')", "import_module('.lib.rules', __package__)"]
    )
    def test_an_import_by_text_is_refused_on_the_driver_already(self, tmp_path: Path, call: str) -> None:
        write(tmp_path, {**RULES, "alerts.py": f"from importlib import import_module\nimport lib\n{call}\n"})
        found = problem(tmp_path, "alerts.py")
        assert (found.code, found.place) == (
            "HW-CODE-DYNAMIC-IMPORT",
            Position(str(tmp_path / "alerts.py"), 3),
        )

    def test_a_failing_module_can_be_corrected(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "x = 1 / 0\n"})
        assert problem(tmp_path, "alerts.py").params == {"exception": "ZeroDivisionError: division by zero"}
        write(tmp_path, {"alerts.py": "x = 1\n"})
        assert load(tmp_path, "alerts.py").x == 1

    def test_a_line_that_is_not_the_users_is_none(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "def f():\n    return int('x')\n"})
        code = project(tmp_path, "alerts.py")
        with pytest.raises(ValueError) as error:
            code.function(tmp_path / "alerts.py", "f")()
        assert code.user_line(error.tb) == Position(str(tmp_path / "alerts.py"), 2)
        with pytest.raises(ValueError) as error:
            int("x")
        assert code.user_line(error.tb) is None
        assert code.user_line(None) is None

    def test_a_file_that_was_not_read_is_a_mistake_of_the_caller(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": "", "other.py": ""})
        with pytest.raises(ValueError, match=r"other\.py"):
            project(tmp_path, "alerts.py").load(tmp_path / "other.py")


class TestFunction:
    """Functions are taken by name from a loaded file."""

    TEXT = """\
        from json import dumps
        LIMIT = 7
        def alerts(): return 1
        def other(): ...
        class A:
            def f(): ...
        """

    def test_by_name(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": self.TEXT})
        code = project(tmp_path, "alerts.py")
        assert code.function(tmp_path / "alerts.py", "alerts")() == 1
        assert code.function(tmp_path / "alerts.py", "A.f").__qualname__ == "A.f"

    def test_a_typo_names_the_nearest_first(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": self.TEXT})
        place = Position("pipeline.yml", 12, 3)
        with pytest.raises(PipelineError) as error:
            project(tmp_path, "alerts.py").function(tmp_path / "alerts.py", "otter", place)
        (found,) = error.value.problems
        assert (found.code, found.place) == ("HW-CODE-NAME-NOT-FOUND", place)
        assert str(found.params["known"]).split(", ")[0] == "other"
        assert set(str(found.params["known"]).split(", ")) == {"other", "alerts", "A"}

    def test_a_value_is_no_function(self, tmp_path: Path) -> None:
        write(tmp_path, {"alerts.py": self.TEXT})
        with pytest.raises(PipelineError) as error:
            project(tmp_path, "alerts.py").function(tmp_path / "alerts.py", "LIMIT")
        (found,) = error.value.problems
        assert (found.code, found.params["kind"]) == ("HW-CODE-NAME-INVALID", "a value of type int")
