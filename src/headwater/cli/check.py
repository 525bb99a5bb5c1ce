"""`check`, `explain`, `schema`: commands that change nothing."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headwater.cli.options import (
    Arguments,
    Conf,
    File,
    Json,
    Master,
    Rate,
    Suppressed,
    Timeout,
    Verbose,
    rates,
    seconds,
    settings,
    suppressions,
)
from headwater.errors import UsageError
from headwater.errors.catalogue.programs import OPTIONS_CONFLICT

Checked = Annotated[str, typer.Argument(metavar="FILE", help="Pipeline (.yml, .yaml, .py) or PySpark script")]
Offline = Annotated[
    bool, typer.Option("--offline", help="Skip Spark: fast, but cannot check SQL columns and types")
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors")]
Sarif = Annotated[bool, typer.Option("--sarif", help="Print SARIF 2.1.0 for code hosts and editors")]
Network = Annotated[bool, typer.Option("--allow-network", help="Allow the script to use the network")]


def check(
    file: Checked,
    arguments: Arguments = None,
    offline: Offline = False,
    strict: Strict = False,
    master: Master = None,
    conf: Conf = None,
    rate: Rate = None,
    as_json: Json = False,
    as_sarif: Sarif = False,
    timeout: Timeout = "60s",
    suppress: Suppressed = None,
    network: Network = False,
    verbose: Verbose = False,
) -> None:
    """Validate a pipeline or a PySpark script without starting any query."""
    from headwater.api.check import check as run_check
    from headwater.cli.check_views import sarif_of, waiting
    from headwater.cli.json_output import print_json
    from headwater.cli.render import show_check

    if arguments and "--" not in sys.argv:
        # Extra arguments would be passed to the script, and are most likely a mistake.
        raise typer.BadParameter(f"put arguments for the script after --: -- {arguments[0]}")
    if as_json and as_sarif:
        raise UsageError(OPTIONS_CONFLICT.at(None, one="--json", other="--sarif"))
    with waiting(as_json=as_json or as_sarif) as emit:
        result = run_check(
            file,
            offline=offline,
            strict=strict,
            master=master,
            conf=settings(conf),
            rates=rates(rate),
            arguments=tuple(arguments or ()),
            timeout=seconds("--timeout", timeout),
            suppress=suppressions(suppress),
            network=network,
            emit=emit,
        )
    if as_json or as_sarif:
        print_json(result.to_json() if as_json else sarif_of(result))
    else:
        show_check(result, verbose=verbose)
    raise typer.Exit(result.exit_code)


def explain(
    file: File,
    master: Master = None,
    conf: Conf = None,
    rate: Rate = None,
    plans: Annotated[bool, typer.Option("--plans/--no-plans", help="Show the Spark plans")] = True,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show the graph, schemas, settings, state and Spark plans of a pipeline."""
    from headwater.api.explain import explain as run_explain
    from headwater.cli.check_views import waiting
    from headwater.cli.json_output import print_json
    from headwater.cli.render import show_explained

    with waiting(as_json=as_json) as emit:
        result = run_explain(file, master=master, conf=settings(conf), rates=rates(rate), emit=emit)
    if as_json:
        print_json(result.to_json())
    else:
        show_explained(result, plans=plans)


def schema(
    connector: Annotated[
        str | None, typer.Option("--connector", metavar="NAME", help="Show the keys of one connector")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the JSON Schema of pipeline files for editors, or the keys of one connector."""
    from headwater.api.project import connector_reference
    from headwater.api.project import schema as pipeline_schema
    from headwater.cli.json_output import print_json
    from headwater.cli.render import show_connector

    if connector is None:
        print_json(pipeline_schema())
    elif as_json:
        print_json(connector_reference(connector).to_json())
    else:
        show_connector(connector_reference(connector))
