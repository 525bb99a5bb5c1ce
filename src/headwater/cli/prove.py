"""`prove`: kill real runs of a pipeline, and compare its sinks with the result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Conf, File, Json, Master, Verbose, duration, settings
from headwater.errors import UsageError
from headwater.errors.catalogue.proving import PROVE_INPUT_INVALID, PROVE_OUTPUT_UNWRITABLE

Kills = Annotated[
    int | None,
    typer.Option(
        "--kills",
        metavar="N",
        min=1,
        help="Number of kills [default: one at each point that a sink supports]",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of the order, the victims and the moments")
]
Points = Annotated[
    list[str] | None,
    typer.Option(
        "--point", metavar="NAME", help="Kill only at this point, such as after-sink-commit (repeatable)"
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="SOURCE=PATH", help="Files to read instead of the current data (repeatable)"
    ),
]
Limit = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="Maximum duration [default: 2 hours]")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the certificate as JSON to this file"),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the scratch copies, and print where they are")]


def prove(
    file: File,
    kills: Kills = None,
    seed: Seed = 1,
    points: Points = None,
    inputs: Input = None,
    timeout: Limit = None,
    output: Output = None,
    keep: Keep = False,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Kill real runs of a pipeline on scratch copies, and check that every sink is exactly-once."""
    from headwater.api.prove import DEFAULT_TIMEOUT, ProofOptions, run_proof
    from headwater.cli.json_output import print_json
    from headwater.cli.prove_views import show_certificate, view_of_proof

    options = ProofOptions(
        kills=kills,
        seed=seed,
        points=tuple(points or ()),
        inputs=_inputs(inputs or []),
        timeout=duration("--timeout", timeout) or DEFAULT_TIMEOUT,
        keep=keep,
        master=master,
        conf=settings(conf),
    )
    with view_of_proof(as_json=as_json) as view:
        certificate = run_proof(file, options, view.event, view.line)
    if output is not None:
        _write(output, certificate.to_json())
    if as_json:
        print_json(certificate.to_json())
    else:
        show_certificate(certificate)
    raise typer.Exit(certificate.exit_code)


def _inputs(texts: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise UsageError(PROVE_INPUT_INVALID.at(None, text=text))
        found[name] = (*found.get(name, ()), os.path.abspath(path))
    return found


def _write(file: Path, certificate: dict[str, object]) -> None:
    import json

    try:
        file.write_text(json.dumps(certificate, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(PROVE_OUTPUT_UNWRITABLE.at(None, file=str(file), reason=reason)) from error
