"""`headwater doctor`: whether this machine has what a run needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headwater.engine.doctor import Check, examine, examine_jars
from headwater.errors import EnvironmentProblem
from headwater.loaders.keys import PipelineKeys

RUN_FOLDER: str = PipelineKeys.model_fields["folder"].default


@dataclass(frozen=True)
class DoctorResult:
    """What was examined and found, in the order in which faults are best repaired."""

    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        failed = any(check.status == "error" for check in self.checks)
        return EnvironmentProblem.exit_code if failed else 0

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.exit_code == 0, "checks": [asdict(check) for check in self.checks]}


def doctor(folder: Path, *, jars: bool = False) -> DoctorResult:
    """Examine the machine for a project in `folder`; nothing is started and nothing is made or fetched."""
    return DoctorResult((*examine(folder / RUN_FOLDER), *(examine_jars() if jars else ())))
