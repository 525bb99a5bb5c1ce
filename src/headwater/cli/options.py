"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand

from headwater.errors import UsageError
from headwater.errors.catalogue.programs import CONF_INVALID, DURATION_INVALID, OPTION_RENAMED, RATE_INVALID
from headwater.values import Duration
from headwater.values.renamed import OPTIONS, renamed

OPTIONAL_VALUES = {"--metrics": (re.compile(r"(.*:)?[0-9]+"), "9464")}
"""Options whose value can be omitted: the form of a value, and the default of `headwater.history.metrics_server`."""


def _with_values(args: list[str]) -> Iterator[str]:
    """The arguments with the default of each option whose value is omitted."""
    for number, argument in enumerate(args):
        yield argument
        form, default = OPTIONAL_VALUES.get(argument, (None, ""))
        if form is not None and not form.fullmatch(args[number + 1] if number + 1 < len(args) else ""):
            yield default


class Command(TyperCommand):
    """A command that reports renamed options, and whose help shows metavars only."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(_with_values(args)))
        except typer.TyperException as error:
            # Only an unknown option has a name.
            option = getattr(error, "option_name", "")
            known = {name for parameter in self.params for name in parameter.opts}
            new = renamed(option, known, OPTIONS)
            if new:
                raise UsageError(OPTION_RENAMED.at(None, option=option, new=new)) from None
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The usage line, with arguments as their metavars show them."""
        return ["[OPTIONS]", *(argument.metavar or "" for argument in self._arguments())]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments and options, without their Python types."""
        arguments = [
            (each.metavar or "", f"{each.help}{'  [required]' if each.required else ''}")
            for each in self._arguments()
        ]
        options = (
            each.get_help_record(ctx) for each in self.get_params(ctx) if not isinstance(each, TyperArgument)
        )
        for title, records in (("Arguments", arguments), ("Options", list(filter(None, options)))):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def _arguments(self) -> list[TyperArgument]:
        return [each for each in self.params if isinstance(each, TyperArgument)]


File = Annotated[str, typer.Argument(metavar="FILE", help="Pipeline file (.yml, .yaml or .py)")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show full error details and tracebacks")]
Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="MASTER_URL", help="Spark master, such as local[4] or spark://host:7077"
    ),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Spark setting (repeatable)")
]


Rate = Annotated[
    list[str] | None,
    typer.Option(
        "--rate",
        metavar="SOURCE=ROWS/s",
        help="Input rate of a source (/s, /m, /h or /d; default /s), used to estimate the state size "
        "(repeatable)",
    ),
]


def rates(texts: list[str] | None) -> dict[str, float]:
    """`--rate` as rows per second by source."""
    # Imported late: `--help` and completion do not need it.
    from headwater.checks.outline import parse_rate

    found: dict[str, float] = {}
    for text in texts or []:
        try:
            name, per_second = parse_rate(text)
        except ValueError as error:
            raise UsageError(RATE_INVALID.at(None, text=text, says=str(error))) from error
        found[name] = per_second
    return found


def settings(conf: list[str] | None) -> dict[str, str]:
    """`--conf` as a mapping."""
    found: dict[str, str] = {}
    for text in conf or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(CONF_INVALID.at(None, text=text))
        found[key.strip()] = value.strip()
    # Imported late: it takes as long as the rest of a command that only asks a run.
    from headwater.loaders.whole import setting_problem

    problems = [problem for problem in map(setting_problem, found) if problem]
    if problems:
        raise UsageError.of(problems)
    return found


def suppressions(texts: list[str] | None) -> dict[str, str]:
    """`--suppress` as reasons by code; the check reports a missing reason."""
    pairs = (text.partition("=") for text in texts or [])
    return {code.strip(): reason for code, _, reason in pairs}


def seconds(option: str, text: str) -> float:
    """A positive duration from the command line."""
    found = duration(option, text)
    if found is None or not found.milliseconds:
        raise UsageError(
            DURATION_INVALID.at(None, option=option, text=text, says="expected a positive duration")
        )
    return found.seconds


def duration(option: str, text: str | None) -> Duration | None:
    """A duration from the command line."""
    if text is None:
        return None
    try:
        return Duration.parse(text)
    except ValueError as error:
        raise UsageError(
            DURATION_INVALID.at(None, option=option, text=text, says=str(error).rstrip("."))
        ) from error


Timeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long the script can run (scripts only)")
]
Suppressed = Annotated[
    list[str] | None,
    typer.Option("--suppress", metavar="CODE=REASON", help="Suppress a finding (scripts only; repeatable)"),
]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[-- ARGS...]", help="Arguments for the script")
]
