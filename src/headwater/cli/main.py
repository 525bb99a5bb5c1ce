"""The `headwater` command."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Iterable
from typing import Annotated

import typer

from headwater.cli import check, control, dev, project, prove, quarantine, run, test
from headwater.cli.options import Command
from headwater.errors import HeadwaterError, Problem
from headwater.errors.catalogue.environment import INTERNAL_ERROR
from headwater.values import scrub

app = typer.Typer(
    name="headwater",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (project.init, project.doctor, check.check, check.explain, check.schema, run.run):
    app.command(cls=Command)(command)
app.command("test", cls=Command)(test.run_tests_command)
app.command(cls=Command)(prove.prove)
for of_run in (control.status, control.stop, control.restart, control.wait):
    app.command(cls=Command)(of_run)
for output in (control.logs, control.events, control.sql):
    app.command(cls=Command)(output)
app.add_typer(quarantine.commands, name="quarantine")
app.add_typer(dev.commands, name="dev")


def _show_versions(wanted: bool) -> None:
    if wanted:
        for package in ("headwater", "pyspark"):
            typer.echo(f"{package} {_version(package)}")
        raise typer.Exit


def _version(package: str) -> str:
    # Imported late: no other option needs it.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "is not installed"


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_versions,
            is_eager=True,
            help="Show the versions of Headwater and Spark",
        ),
    ] = False,
) -> None:
    """Reliable streaming pipelines on Apache Spark, declared in YAML or Python."""


def main() -> None:
    """Run a command; every failure becomes a message and an exit code, never a traceback."""
    verbose, as_json = "--verbose" in sys.argv, "--json" in sys.argv
    # The loaded modules stay for the whole process: collecting garbage among them only costs time.
    gc.set_threshold(100_000, 20, 20)
    try:
        app()
    except HeadwaterError as error:
        _show(error.problems, as_json=as_json, verbose=verbose)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of the output has gone.
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - an internal error still gets a message and a hint
        problem = INTERNAL_ERROR.at(None, error=scrub(f"{type(error).__name__}: {error}".splitlines()[0]))
        _show([problem], as_json=as_json, verbose=False)
        if verbose:
            sys.stderr.write(scrub(traceback.format_exc()))
        sys.exit(70)
    finally:
        _make_class_data()


def _make_class_data() -> None:
    """Make the next start of Spark faster, in the background, if this command started Spark."""
    if "headwater.spark.launch" in sys.modules:
        from headwater.api.class_data import start_making

        start_making()


def _show(problems: Iterable[Problem], *, as_json: bool, verbose: bool) -> None:
    # Imported late: `--help` and completion do not need it.
    from headwater.cli.render import show_problems

    show_problems(problems, as_json=as_json, verbose=verbose)
