"""The error tree; every error carries problems of the catalogue and the exit code of the command.

HeadwaterError
├── UsageProblem         2  the command line or a call makes no sense
│   └── UnknownQuery        a run has no query of this name; a KeyError too
├── PipelineError        3  the pipeline is refused before start
├── Held                 4  another run holds the checkpoint
├── CheckpointError      4  the checkpoint does not fit or can't be read
├── EnvironmentProblem   5  Java, Spark or the machine lacks something
├── QueryFailed          1  a query failed while it ran
└── Interrupted        130  a second interrupt forced the end
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors.problems import Problem


class HeadwaterError(Exception):
    """Something that the catalogue has an entry for, once or several times."""

    exit_code = 1

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> HeadwaterError:
        """One error for several problems, reported together."""
        return cls(*problems)

    @property
    def retry(self) -> bool:
        """Whether trying the same again can help."""
        return bool(self.problems) and all(problem.entry.retry for problem in self.problems)


class UsageProblem(HeadwaterError):
    """The command line or a call makes no sense."""

    exit_code = 2


class UnknownQuery(UsageProblem, KeyError):
    """A run has no query of this name; a KeyError, too."""

    def __str__(self) -> str:
        # A KeyError shows its text in quotes, as if it were a key.
        return "\n".join(str(problem) for problem in self.problems)


class PipelineError(HeadwaterError):
    """The pipeline is refused before start."""

    exit_code = 3


class CheckpointError(HeadwaterError):
    """A checkpoint does not fit this pipeline or can't be read."""

    exit_code = 4


class Held(CheckpointError):
    """Another run holds the checkpoint."""


class EnvironmentProblem(HeadwaterError):
    """Java, Spark, Python or the machine lacks something."""

    exit_code = 5


class QueryFailed(HeadwaterError):
    """A query failed while it ran."""

    exit_code = 1


class Interrupted(HeadwaterError):
    """A second interrupt forced the end; the running batch may not have committed."""

    exit_code = 130
