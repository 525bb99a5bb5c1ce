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
    """What a check says: `code`, `sentence`, `remedy` and `where`; how grave it is, and what it concerns."""

    problem: Problem
    severity: Severity = Severity.ERROR
    """`error`, `warning` or `advice`: a text, too."""
    sink: str = ""
    """The sink whose query it concerns; empty where it concerns the pipeline."""
    table: str = ""
    """The table in which the cause stands, where that is known."""
    acceptable: bool = False
    """Whether an error may be accepted, because the pipeline would run; what is no error always may."""
    accepted: str = ""
    """The reason that the file gives for accepting it."""
    rewritten: str = ""
    """The query as it should be written, where that can be told; the remedy shows it, too."""

    @property
    def code(self) -> str:
        """Its name in the list of errors: `HW-UNUSED`."""
        return self.problem.code

    @property
    def sentence(self) -> str:
        """What is wrong."""
        return self.problem.sentence

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self.problem.remedy

    @property
    def where(self) -> str:
        """`file:line:column`; empty where no line of yours is to blame."""
        return self.problem.where

    @property
    def is_error(self) -> bool:
        """Whether it keeps the pipeline from starting."""
        return self.severity is Severity.ERROR and not self.accepted

    def to_json(self) -> dict[str, Any]:
        return {
            "severity": self.severity.value,
            "sink": self.sink or None,
            "table": self.table or None,
            "accepted": self.accepted or None,
            "rewritten": self.rewritten or None,
            **self.problem.to_json(),
        }
