"""The process that `headwater prove` kills: runs the scratch pipeline as `headwater run --until-idle` does.

python -m headwater.api.prove_run PLAN MASTER [KEY=VALUE ...]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from headwater.api.run import Output, run
from headwater.engine.pipeline_file import load
from headwater.errors import HeadwaterError, Problem
from headwater.events import Event
from headwater.proof.scratch import ScratchPlan, scratch_spec
from headwater.runtime import RunOptions
from headwater.values import scrub


def main(arguments: Sequence[str]) -> int:
    """The exit code of the run."""
    plan, master = ScratchPlan.read(Path(arguments[0])), arguments[1] or None
    conf = dict(setting.split("=", 1) for setting in arguments[2:])
    options = RunOptions(master=master, conf=conf, until_idle=True, observed=False)
    try:
        spec = scratch_spec(load(plan.file, reads=False), plan)
        (result,) = run([spec], options, Output(_ignore, _print))
    except HeadwaterError as error:
        _tell(error.problems)
        return error.exit_code
    _tell([*result.problems, *(each.problem for each in result.queries.values() if each.problem)])
    return result.exit_code


def _ignore(event: Event) -> None:
    """The prover watches the checkpoints, not the events."""


def _print(line: str) -> None:
    sys.stdout.write(scrub(line) + "\n")
    sys.stdout.flush()


def _tell(problems: Sequence[Problem]) -> None:
    for problem in problems:
        _print(f"{problem.code}: {problem.message}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
