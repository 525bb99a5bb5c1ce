"""A finding: a problem of the catalogue, how grave it is, and which sink it concerns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headwater.errors import Problem


class Severity(StrEnum):
    """An error keeps the pipeline from starting; a warning and an advice do not."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True)
class Finding:
    """What a check says."""

    problem: Problem
    severity: Severity = Severity.ERROR
    sink: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"severity": self.severity.value, "sink": self.sink or None, **self.problem.to_json()}
