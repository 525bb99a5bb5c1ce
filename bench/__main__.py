"""Runs benchmarks by name, or all of them: `python -m bench [NAME …] [--rounds N] [--quick]`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import pkgutil
import signal
import sys
import traceback
from pathlib import Path
from types import ModuleType

import bench
from bench.harness import ROUNDS, Benchmark, run


def names() -> list[str]:
    """Every module of this package that defines a benchmark, by the name of the benchmark."""
    modules = [found.name for found in pkgutil.iter_modules(bench.__path__) if found.name != "__main__"]
    return [name.replace("_", "-") for name in modules if hasattr(_module(name), "BENCHMARK")]


def benchmark(name: str) -> Benchmark:
    """The benchmark `small-batches` is in the module `small_batches`."""
    found: Benchmark = _module(name.replace("-", "_")).BENCHMARK
    return found


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"bench.{name}")


def _exists(name: str) -> bool:
    module = f"bench.{name.replace('-', '_')}"
    return importlib.util.find_spec(module) is not None and hasattr(
        importlib.import_module(module), "BENCHMARK"
    )


def main() -> int:
    """Run the named benchmarks. The exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; all by default")
    parser.add_argument("--rounds", type=int, help=f"rounds of each case (default: {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="one round with tiny inputs, to test the suite")
    parser.add_argument("--case", default="", help="only cases whose name contains this; stores no results")
    parser.add_argument("--results", type=Path, help="directory of the results")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    arguments = parser.parse_args()
    # An exception ends the jobs and servers that a benchmark has started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if arguments.list:
        print("\n".join(f"{name:16} {benchmark(name).title}" for name in names()))
        return 0
    if unknown := [name for name in arguments.names if not _exists(name)]:
        parser.error(f"unknown benchmark {', '.join(unknown)}; expected one of {', '.join(names())}")
    rounds = arguments.rounds or (1 if arguments.quick else ROUNDS)
    met = [
        _met(name, rounds, arguments.quick, arguments.case, arguments.results)
        for name in arguments.names or names()
    ]
    return 0 if all(met) else 1


def _met(name: str, rounds: int, quick: bool, pattern: str, results: Path | None) -> bool:
    """Run one benchmark; one that fails does not prevent the others."""
    try:
        return run(benchmark(name), rounds=rounds, quick=quick, pattern=pattern, results=results)
    except Exception:  # noqa: BLE001 - whatever it is, the others still run
        traceback.print_exc()
        print(f"{name} failed; its results are not stored", flush=True)
        return False


if __name__ == "__main__":
    sys.exit(main())
