"""`headwater init`: create a sample project."""

from __future__ import annotations

import os
import shlex
import tomllib
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from headwater.api.class_data import make_now
from headwater.connectors import Sink, Source, all_connectors
from headwater.engine.doctor import CLASS_DATA, Check, class_data_failed, examine, examine_jars
from headwater.errors import SetupError, UsageError
from headwater.errors.catalogue.environment import RUN_DIR_UNWRITABLE
from headwater.errors.catalogue.programs import (
    CONNECTOR_NOT_INSTALLED,
    DIRECTORY_NOT_EMPTY,
    TEMPLATE_NOT_FOUND,
)
from headwater.loaders.json_schema import keys_of, pipeline_schema
from headwater.loaders.keys import PipelineKeys
from headwater.values import did_you_mean

TEMPLATES = resources.files("headwater.api") / "templates"


@dataclass(frozen=True)
class Template:
    """A sample project: its directory among the templates, its data, and the first command."""

    folder: str
    data: str
    first_command: str

    @property
    def files(self) -> dict[str, str]:
        """Names in the project and in the template; a `.gitignore` there would apply to this repository."""
        names = ("pipeline.yml", self.data, "tests/test_pipeline.yml", "README.md")
        return {**{name: name for name in names}, ".gitignore": "gitignore"}


KINDS = {
    kind: Template(**each)
    for kind, each in tomllib.loads((TEMPLATES / "templates.toml").read_text(encoding="utf-8")).items()
}


@dataclass(frozen=True)
class InitResult:
    """The created files and the next command."""

    files: tuple[str, ...]
    next_command: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def init(folder: Path, kind: str = "word-count") -> InitResult:
    """Create a sample project in a new or empty directory."""
    if kind not in KINDS:
        hint = f"{did_you_mean(kind, KINDS)} ".lstrip()
        raise UsageError(TEMPLATE_NOT_FOUND.at(None, name=kind, hint=hint, known=", ".join(KINDS)))
    template, shown = KINDS[kind], _shown(folder)
    try:
        if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
            raise UsageError(DIRECTORY_NOT_EMPTY.at(None, path=shown or os.curdir))
        for name, source in template.files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            # "x": never overwrite a file that was created in the meantime.
            with file.open("xb") as out:
                out.write(TEMPLATES.joinpath(template.folder, *source.split("/")).read_bytes())
    except OSError as error:
        problem = RUN_DIR_UNWRITABLE.at(None, path=shown or os.curdir, reason=error.strerror or str(error))
        raise SetupError(problem) from error
    files = tuple(os.path.join(shown, name) for name in template.files)
    return InitResult(files, _next_command(shown, template.first_command))


def _shown(folder: Path) -> str:
    """The directory relative to the current one, or as the user wrote it if it is elsewhere. Empty: here."""
    relative = os.path.relpath(folder)
    if relative == os.curdir:
        return ""
    return str(folder) if relative.split(os.sep)[0] == os.pardir else relative


def _next_command(shown: str, first: str) -> str:
    if not shown:
        return first
    # A leading dash would be parsed as an option.
    safe = os.path.join(os.curdir, shown) if shown.startswith("-") else shown
    return f"cd {shlex.quote(safe)} && {first}"


# `headwater doctor`: whether this machine meets the requirements.

RUN_DIR: str = PipelineKeys.model_fields["run_dir"].default


@dataclass(frozen=True)
class DoctorResult:
    """The checks and their results, in the order in which problems are best fixed."""

    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        failed = any(check.status == "error" for check in self.checks)
        return SetupError.exit_code if failed else 0

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.exit_code == 0, "checks": [asdict(check) for check in self.checks]}


def doctor(
    folder: Path, *, jars: bool = False, spark: bool = False, class_data: bool = False
) -> DoctorResult:
    """Check the machine for a project in `folder`; downloads nothing, and changes nothing without `class_data`.

    With `spark`, start a JVM with Spark and check its parts. With `class_data`, create the archive of
    Spark's classes first.
    """
    reason = make_now() if class_data else ""
    checks = [*examine(folder / RUN_DIR), *(examine_jars() if jars else ())]
    if reason:
        failed = class_data_failed(reason, "error")
        checks = [failed if check.name == CLASS_DATA else check for check in checks]
    if spark and not any(check.status == "error" for check in checks):
        # PySpark is imported only here.
        from headwater.engine.prepare import examine_spark

        checks += examine_spark()
    return DoctorResult(tuple(checks))


# `headwater schema`: the JSON Schema of pipeline files, and the keys of one connector.


def schema() -> dict[str, Any]:
    """The schema of pipeline files, with every installed connector."""
    return pipeline_schema()


@dataclass(frozen=True)
class Key:
    """A key of a connector."""

    name: str
    required: bool
    default: Any
    meaning: str


@dataclass(frozen=True)
class ConnectorReference:
    """An installed connector, and its keys as a source and as a sink."""

    name: str
    summary: str
    source: tuple[Key, ...] | None
    sink: tuple[Key, ...] | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def connector_reference(name: str) -> ConnectorReference:
    """The reference of one connector, built in or from another package."""
    known = all_connectors()
    if name not in known:
        hint = did_you_mean(name, known, "Check that its package is installed.")
        raise UsageError(
            CONNECTOR_NOT_INSTALLED.at(None, name=name, hint=hint, known=", ".join(sorted(known)))
        )
    found = known[name]
    return ConnectorReference(found.name, found.summary, _keys(found.source), _keys(found.sink))


def _keys(side: Source[Any] | Sink[Any] | None) -> tuple[Key, ...] | None:
    if side is None:
        return None
    fields = {field.alias or name: field for name, field in side.options.model_fields.items()}
    return tuple(
        Key(name, fields[name].is_required(), node.get("default"), node.get("description", ""))
        for name, node in keys_of(side.options).items()
    )
