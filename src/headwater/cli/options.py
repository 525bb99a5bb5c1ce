"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.errors import UsageProblem
from headwater.errors.catalogue.programs import CONF_INVALID, DURATION_INVALID, RATE_INVALID
from headwater.loaders.whole import setting_problem
from headwater.values import Duration

File = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline: a .yml, .yaml or .py file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the full text behind an error.")]
Master = Annotated[
    str | None, typer.Option("--master", help="The Spark master, such as local[4] or spark://host:7077.")
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", help="A setting of Spark: key=value.", metavar="KEY=VALUE")
]


Rate = Annotated[
    list[str] | None,
    typer.Option(
        "--rate",
        metavar="SOURCE=ROWS/s",
        help="How many rows a source brings (/s, /m, /h, /d; a bare number is per second): tells how many "
        "rows are kept.",
    ),
]


def rates(texts: list[str] | None) -> dict[str, float]:
    """`--rate` as rows per second by source."""
    # Loaded late: `--help` and completion need nothing of it.
    from headwater.checks.outline import parse_rate

    found: dict[str, float] = {}
    for text in texts or []:
        try:
            name, per_second = parse_rate(text)
        except ValueError as error:
            raise UsageProblem(RATE_INVALID.at(None, text=text, says=str(error))) from error
        found[name] = per_second
    return found


def settings(conf: list[str] | None) -> dict[str, str]:
    """`--conf` as a mapping."""
    found: dict[str, str] = {}
    for text in conf or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageProblem(CONF_INVALID.at(None, text=text))
        found[key.strip()] = value.strip()
    problems = [problem for problem in map(setting_problem, found) if problem]
    if problems:
        raise UsageProblem.of(problems)
    return found


def accepts(texts: list[str] | None) -> dict[str, str]:
    """`--accept` as reasons by code; a reason may be missing, which the check says."""
    pairs = (text.partition("=") for text in texts or [])
    return {code.strip(): reason for code, _, reason in pairs}


def seconds(option: str, text: str) -> float:
    """A length of time from the command line that is longer than none."""
    found = duration(option, text)
    if found is None or not found.milliseconds:
        raise UsageProblem(DURATION_INVALID.at(None, option=option, text=text, says="it leaves no time"))
    return found.seconds


def duration(option: str, text: str | None) -> Duration | None:
    """A length of time from the command line."""
    if text is None:
        return None
    try:
        return Duration.parse(text)
    except ValueError as error:
        raise UsageProblem(
            DURATION_INVALID.at(None, option=option, text=text, says=str(error).rstrip("."))
        ) from error


Deadline = Annotated[str, typer.Option("--deadline", metavar="TIME", help="How long a script may run.")]
Accepted = Annotated[
    list[str] | None,
    typer.Option("--accept", metavar="CODE=REASON", help="A finding that is all right in a script."),
]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[-- ARGUMENT...]", help="What a script is called with.")
]
