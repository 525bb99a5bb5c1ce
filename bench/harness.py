"""Runs the variants of a benchmark in turn and compares them: medians, spread, CPU time, ratios, targets.

A benchmark is a module of this package with an attribute `BENCHMARK`. In each round, every variant of a case runs
once, each in a new empty directory, and the order rotates from round to round. A ratio is the median of the ratios
of the rounds, so load that changes between rounds affects both sides.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
QUICK_RESULTS = ROOT / "build" / "quick_benchmarks"
ROUNDS = 5
MAX_LOAD = 0.5
"""With a higher load before a run, other processes disturb it."""
VERSION = 1

HEADWATER = "Headwater"
SAME = "Spark, same settings"
STOCK_FILES = "Spark, same settings, stock file system"
GUIDE = "Spark, guide settings"
DEFAULTS = "Spark, defaults"


class Unavailable(Exception):
    """A variant cannot run on this machine; the text says why. The results list it with this reason."""


@dataclass(frozen=True)
class Sample:
    """What one run of a variant measured."""

    value: float
    cpu: float | None = None
    """CPU time of the whole process tree: in the unit of the value if that is `ms per …`, else seconds."""
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Variant:
    """One way to do the work of a case."""

    name: str
    run: Callable[[Path], Sample]
    """Runs once, in a new empty directory."""
    rounds: int | None = None
    """Fewer rounds, for a slow peer."""
    compare_on: str = ""
    """The detail to compare instead of the value, for a peer that is too slow to reach the same batches."""
    note: str = ""


@dataclass(frozen=True)
class Target:
    """A limit for a variant: for its ratio to another one, or for its own value."""

    variant: str
    relative_to: str | None
    limit: float
    kind: Literal["at most", "at least"]
    detail: str = ""
    """The detail that counts; empty for the value."""


@dataclass(frozen=True)
class Case:
    """One workload, with the variants to compare."""

    name: str
    unit: str
    better: Literal["lower", "higher"]
    variants: Sequence[Variant]
    baseline: str = SAME
    targets: Sequence[Target] = ()
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """A target and the value that was reached."""

    text: str
    reached: float | None
    """None if it could not be measured."""
    limit: float
    kind: Literal["at most", "at least"]
    unit: str = ""

    @property
    def met(self) -> bool:
        if self.reached is None:
            return False
        return self.reached <= self.limit if self.kind == "at most" else self.reached >= self.limit

    @property
    def shown(self) -> str:
        """The value that was reached, with its unit."""
        return "not measured" if self.reached is None else f"{number(self.reached)}{self.unit}"

    def __str__(self) -> str:
        state = "met" if self.met else "MISSED"
        wanted = f"{self.kind} {self.limit:g}{self.unit}"
        return f"{self.text}: {self.shown}, target {wanted}: {state}"


@dataclass(frozen=True)
class VariantResult:
    """The samples of a variant, by round, and what follows from them."""

    name: str
    samples: Mapping[int, Sample]
    ratios: Mapping[int, float] = field(default_factory=dict)
    """The value relative to the baseline of the same round."""
    lost: int = 0
    """The number of rounds in which it was worse than the baseline."""
    compare_on: str = ""
    note: str = ""
    unavailable: str = ""

    def values(self, detail: str = "") -> dict[int, float]:
        """The value, or one detail, of each round that has it."""
        if not detail:
            return {number: sample.value for number, sample in self.samples.items()}
        return {n: sample.details[detail] for n, sample in self.samples.items() if detail in sample.details}

    @property
    def median(self) -> float:
        return statistics.median(self.values().values())

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.values().values()), max(self.values().values())

    @property
    def cpu(self) -> float | None:
        used = [sample.cpu for sample in self.samples.values() if sample.cpu is not None]
        return statistics.median(used) if used else None

    @property
    def details(self) -> dict[str, float]:
        names = dict.fromkeys(name for sample in self.samples.values() for name in sample.details)
        return {name: statistics.median(self.values(name).values()) for name in names}

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios.values()) if self.ratios else None


@dataclass(frozen=True)
class CaseResult:
    """The results of all variants of a case."""

    name: str
    unit: str
    better: Literal["lower", "higher"]
    baseline: str
    variants: Sequence[VariantResult]
    outcomes: Sequence[Outcome] = ()
    note: str = ""

    @property
    def cpu_unit(self) -> str:
        """The unit of CPU time: per batch or per test where the value is, else seconds per run."""
        return self.unit if self.unit.startswith("ms per ") else "s"

    def variant(self, name: str) -> VariantResult | None:
        """A variant that has results."""
        return next((each for each in self.variants if each.name == name and each.samples), None)

    def ratio(self, name: str, relative_to: str, detail: str = "") -> float | None:
        """The median over the rounds of one variant's value relative to another's."""
        ours, theirs = self.variant(name), self.variant(relative_to)
        if ours is None or theirs is None:
            return None
        found = ratios(ours.values(detail), theirs.values(detail))
        return statistics.median(found.values()) if found else None


class Benchmark(Protocol):
    """What a module of this package offers as `BENCHMARK`."""

    name: str
    title: str
    description: str

    def cases(self, quick: bool) -> Iterable[Case]:
        """The cases, in order; `quick` asks for inputs so small that only the suite itself is tested."""

    def environment(self) -> AbstractContextManager[object]:
        """Whatever the cases need, such as a broker: open while they run."""
        return nullcontext()

    def outcomes(self, results: Sequence[CaseResult]) -> Iterable[Outcome]:
        """Targets over several cases."""
        return ()


def measure(case: Case, rounds: int, scratch: Path) -> CaseResult:
    """Run the variants in turn. The order rotates, and every second round is reversed, so that no variant always runs
    after the same one."""
    samples: dict[str, dict[int, Sample]] = {variant.name: {} for variant in case.variants}
    missing: dict[str, str] = {}
    for turn in range(rounds):
        shift = turn % len(case.variants)
        order = [*case.variants[shift:], *case.variants[:shift]]
        for variant in reversed(order) if turn % 2 else order:
            if variant.name in missing or turn >= (variant.rounds or rounds):
                continue
            try:
                samples[variant.name][turn] = sample = _run(variant, scratch)
            except Unavailable as reason:
                print(f"  {variant.name}: not available: {reason}", flush=True)
                missing[variant.name] = _first_line(str(reason))
                continue
            used = "" if sample.cpu is None else f", CPU {number(sample.cpu)}"
            print(f"  round {turn + 1}: {variant.name}: {number(sample.value)} {case.unit}{used}", flush=True)
    return compare(case, samples, missing)


def _first_line(reason: str) -> str:
    """A reason for the results, without directories of this machine."""
    line = reason.strip().partition("\n")[0]
    for place in (ROOT, Path(tempfile.gettempdir()), Path.home()):
        line = line.replace(str(place), "…")
    return line


def _run(variant: Variant, scratch: Path) -> Sample:
    folder = Path(tempfile.mkdtemp(dir=scratch))
    try:
        return variant.run(folder)
    except Unavailable:
        raise
    except Exception as error:
        error.add_note(f"The variant was {variant.name!r}.")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(
    case: Case, samples: Mapping[str, Mapping[int, Sample]], missing: Mapping[str, str]
) -> CaseResult:
    """The results of a case from the samples of its variants."""
    results = []
    base = VariantResult(case.baseline, samples.get(case.baseline, {}))
    for variant in case.variants:
        result = VariantResult(variant.name, samples[variant.name])
        found = ratios(result.values(variant.compare_on), base.values(variant.compare_on))
        worse = [each > 1 if case.better == "lower" else each < 1 for each in found.values()]
        results.append(
            VariantResult(
                variant.name,
                samples[variant.name],
                found,
                sum(worse),
                variant.compare_on,
                variant.note,
                missing.get(variant.name, ""),
            )
        )
    made = CaseResult(case.name, case.unit, case.better, case.baseline, results, note=case.note)
    outcomes = [_outcome(made, target) for target in case.targets]
    return CaseResult(case.name, case.unit, case.better, case.baseline, results, outcomes, case.note)


def ratios(ours: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
    """The ratio in each round in which both have a value."""
    return {turn: value / theirs[turn] for turn, value in ours.items() if theirs.get(turn)}


def _outcome(result: CaseResult, target: Target) -> Outcome:
    """Whether the target is met; it is missed, without a value, if a variant is not available."""
    ours = result.variant(target.variant)
    name = f"{result.name}: {target.variant}" + (f", {target.detail}" if target.detail else "")
    if target.relative_to is None:
        reached = statistics.median(ours.values(target.detail).values()) if ours else None
        return Outcome(name, reached, target.limit, target.kind, f" {result.unit}")
    ratio = result.ratio(target.variant, target.relative_to, target.detail)
    return Outcome(f"{name} / {target.relative_to}", ratio, target.limit, target.kind)


def geometric_mean(results: Iterable[CaseResult], name: str, relative_to: str) -> float | None:
    """The geometric mean of a ratio over the cases that have both variants."""
    found = [ratio for result in results if (ratio := result.ratio(name, relative_to)) is not None]
    return statistics.geometric_mean(found) if found else None


# Printing.


def number(value: float) -> str:
    """Three significant digits, all digits before the point, and separators of thousands."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 6)}f}"


def lines(result: CaseResult) -> list[str]:
    """A case as a table for the terminal."""
    text = [f"{result.name} ({result.unit}, {result.better} is better)"]
    width = max(len(each.name) for each in result.variants)
    for each in result.variants:
        if not each.samples:
            text.append(f"  {each.name:{width}}  not available: {each.unavailable}")
            continue
        low, high = each.spread
        parts = [f"{number(each.median):>10}", f"{number(low)}–{number(high):10}"]
        parts.append("" if each.cpu is None else f"CPU {number(each.cpu)} {result.cpu_unit}")
        if each.ratio is not None and each.name != result.baseline:
            compared = f" on {each.compare_on}" if each.compare_on else ""
            parts.append(
                f"{each.ratio:.2f} of the baseline{compared}, lost {each.lost} of {len(each.ratios)}"
            )
        parts.append(f"{len(each.samples)} round{'s' if len(each.samples) != 1 else ''}")
        text.append(f"  {each.name:{width}}  " + "  ".join(filter(None, parts)))
        if each.details:
            shown = ", ".join(f"{name} {number(value)}" for name, value in each.details.items())
            text.append(f"  {'':{width}}    {shown}")
    return [*text, *(f"  {outcome}" for outcome in result.outcomes)]


# A whole benchmark, and its file of results.


def run(
    benchmark: Benchmark, *, rounds: int, quick: bool, pattern: str = "", results: Path | None = None
) -> bool:
    """Measure every case, print and store the results. Returns whether all targets were met."""
    # Making an archive of classes in the background would disturb; the benchmark of the start-up makes its own.
    os.environ.setdefault("HEADWATER_CLASS_DATA", "off")
    folder = results or (QUICK_RESULTS if quick else RESULTS)
    began, before = time.monotonic(), machine()
    print(f"{benchmark.title}: {benchmark.description}", flush=True)
    for warning in (warnings := warnings_of(before)):
        print(f"Warning: {warning}", flush=True)
    measured: list[CaseResult] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as scratch, benchmark.environment():
        for case in benchmark.cases(quick):
            if pattern not in case.name:
                continue
            print(f"\n{case.name}", flush=True)
            try:
                measured.append(measure(case, rounds, Path(scratch)))
            except Exception:  # noqa: BLE001 - the other cases still have results
                traceback.print_exc()
                failed.append(case.name)
                continue
            print("\n".join(lines(measured[-1])), flush=True)
    outcomes = [] if pattern or failed else list(benchmark.outcomes(measured))
    for outcome in outcomes:
        print(outcome)
    document = to_json(benchmark, measured, outcomes, before | {"quick": quick, "rounds": rounds})
    document["warnings"] = warnings
    document["minutes"] = round((time.monotonic() - began) / 60, 1)
    document["failed"] = failed
    if not pattern:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document, indent=1, ensure_ascii=False)
        (folder / f"{benchmark.name}.json").write_text(text + "\n", encoding="utf-8")
    if failed:
        print(f"Failed: {', '.join(failed)}", flush=True)
    met = all(outcome.met for outcome in (*outcomes, *(v for each in measured for v in each.outcomes)))
    return met and not failed


def to_json(
    benchmark: Benchmark,
    results: Sequence[CaseResult],
    outcomes: Sequence[Outcome],
    facts: Mapping[str, object],
) -> dict[str, Any]:
    """The file of results: every sample of every round, and the machine."""
    return {
        "version": VERSION,
        "name": benchmark.name,
        "title": benchmark.title,
        "description": benchmark.description,
        "facts": dict(facts),
        "cases": [asdict(result) for result in results],
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }


def from_json(document: Mapping[str, Any]) -> tuple[list[CaseResult], list[Outcome]]:
    """The results of a file that `to_json` wrote."""
    if document["version"] != VERSION:
        raise ValueError(f"results of version {document['version']}, expected {VERSION}")
    cases = []
    for case in document["cases"]:
        variants = [
            VariantResult(
                **each
                | {
                    "samples": {int(turn): Sample(**sample) for turn, sample in each["samples"].items()},
                    "ratios": {int(turn): ratio for turn, ratio in each["ratios"].items()},
                }
            )
            for each in case["variants"]
        ]
        outcomes = [Outcome(**each) for each in case["outcomes"]]
        cases.append(CaseResult(**case | {"variants": variants, "outcomes": outcomes}))
    return cases, [Outcome(**each) for each in document["outcomes"]]


def warnings_of(facts: Mapping[str, Any]) -> list[str]:
    """What makes the results of a run less reliable."""
    load = facts["load_before"]
    return [f"the load before the run was {load:g}: use an idle machine"] if load > MAX_LOAD else []


def machine() -> dict[str, object]:
    """What the results depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(memory / 2**30),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "java": _java(),
        "spark": version("pyspark"),
        "python": platform.python_version(),
        "headwater": version("headwater"),
        "load_before": round(os.getloadavg()[0], 2),
        **commit(),
    }


def commit(folder: Path = ROOT) -> dict[str, object]:
    """The commit that is measured, and whether files differ from it; nothing outside of a Git repository."""
    try:
        found = _git(folder, "rev-parse", "HEAD").strip()
        # Stored results are not code.
        changed = _git(folder, "status", "--porcelain", "--", ".", ":!bench/results", ":!docs")
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {"commit": found, "dirty": bool(changed)}


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    rows = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    found = [row.partition(":")[2].strip() for row in rows if row.startswith("model name")]
    return found[0] if found else platform.processor() or platform.machine()


def _java() -> str:
    from headwater.spark.java import find_java

    done = subprocess.run([find_java().executable, "-version"], capture_output=True, text=True, check=True)
    # Java may print its options first.
    return next(line for line in done.stderr.splitlines() if "version" in line).replace('"', "").strip()
