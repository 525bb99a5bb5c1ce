"""Compile requirements/*.lock: with hashes for every platform and without host names."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
PEERS = ROOT / "bench" / "peers" / "peers.toml"
UV = "uv==0.13.7"
HOST_FREE = ("--no-header", "--no-annotate", "--no-emit-index-url", "--quiet")


def compile_lock(name: str, requirements: list[str], python: str, options: list[str]) -> None:
    """Resolve `requirements` into requirements/<name>.lock, keeping the versions it already contains."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--universal", "--generate-hashes"]
    command += [*HOST_FREE, "--python-version", python, "--constraints", str(FOLDER / "constraints.txt")]
    command += ["--output-file", str(FOLDER / f"{name}.lock"), *options]
    subprocess.run(command, input="\n".join(requirements), text=True, check=True, cwd=ROOT)
    print(f"lock: requirements/{name}.lock")


def main(options: list[str]) -> None:
    """Compile all locks; `options` go to uv (`--upgrade`)."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = declared["project"]
    python = project["requires-python"].removeprefix(">=")
    # The build back end is also locked, so the editable install needs no index.
    build = [*declared["build-system"]["requires"], "editables"]
    optional = [each for extra in project["optional-dependencies"].values() for each in extra]
    development = [*project["dependencies"], *optional, *declared["dependency-groups"]["dev"], *build]
    compile_lock("uv", [UV], python, options)
    compile_lock("dev", development, python, options)
    # Packages in both locks have the same version.
    shared = ["--constraints", str(FOLDER / "dev.lock")]
    compile_lock("bench", declared["dependency-groups"]["bench"], python, [*shared, *options])
    # Each peer of the benchmarks has its own environment, and so its own versions.
    for name, peer in tomllib.loads(PEERS.read_text(encoding="utf-8")).items():
        compile_lock(f"peers-{name}", peer["requirements"], python, options)


if __name__ == "__main__":
    main(sys.argv[1:])
