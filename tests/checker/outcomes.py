"""What a real start of each case came to, recorded beside the tests, with the Spark and the text it is of.

The gate starts nothing: it holds the check's verdict against what is recorded here. `make outcomes` starts
the cases that are new or changed, and all of them after a change of Spark. The docs' table of modes is made
from the same file.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from types import CodeType, FunctionType
from typing import Any

import pyspark

from scripts.modes import OUTCOMES
from tests.checker.cases import Case, sources
from tests.checker.matrix import Matrix
from tests.checker.starting import Outcome


def outcomes(matrix: Matrix) -> dict[str, dict[str, Any]]:
    """By the name of the case: what it is, what a real start showed, and what the check says."""
    return {
        each.case.id: {
            "kind": each.case.kind,
            "variant": each.case.variant,
            "mode": each.case.mode,
            "sink": each.case.sink,
            "trigger": each.case.trigger,
            "outcome": each.outcome.value,
            "codes": sorted({error.problem.code for error in each.errors}),
            "spark": pyspark.__version__,
            "text": text_hash(each.case),
        }
        for each in matrix.judged
    }


def recorded() -> dict[str, dict[str, Any]]:
    """The outcomes that stand beside the tests."""
    found: dict[str, dict[str, Any]] = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    return found


def known_outcomes(cases: Iterable[Case]) -> dict[str, Outcome]:
    """What is recorded of these cases for this Spark and for what they are now."""
    kept = recorded()
    return {
        case.id: Outcome(kept[case.id]["outcome"])
        for case in cases
        if case.id in kept
        and (kept[case.id]["spark"], kept[case.id]["text"]) == (pyspark.__version__, text_hash(case))
    }


def as_text(matrix: Matrix) -> str:
    """The file."""
    return json.dumps(outcomes(matrix), indent=1, sort_keys=True) + "\n"


def text_hash(case: Case) -> str:
    """Another one whenever the case, a function it calls or the rows it reads are written differently."""
    values = {field.name: getattr(case, field.name) for field in fields(case)}
    text = [f"{name}: {part}" for name, value in values.items() for part in _texts(value)]
    whole = "\n".join([*text, inspect.getsource(sources)])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _texts(value: Any) -> Iterator[str]:
    """A value as it is written; of a function also the functions and constants of these tests it uses."""
    seen: set[FunctionType] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, FunctionType):
            yield repr(each)
        elif each not in seen:
            seen.add(each)
            yield inspect.getsource(each)
            waiting += [cell.cell_contents for cell in each.__closure__ or ()]
            names = [name for name in _names(each.__code__) if name in each.__globals__]
            waiting += [used for name in names if _is_ours(used := each.__globals__[name])]


def _names(code: CodeType) -> list[str]:
    """The global names that a function and those inside it use, in a fixed order."""
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each)]
    return sorted({*code.co_names, *inner})


def _is_ours(value: Any) -> bool:
    if isinstance(value, FunctionType):
        return value.__module__.startswith("tests.")
    return isinstance(value, str | int | tuple)
