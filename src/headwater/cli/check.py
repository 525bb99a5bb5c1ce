"""`check`, `explain`, `schema`: commands that only look."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headwater.cli.options import (
    Accepted,
    Arguments,
    Conf,
    Deadline,
    File,
    Json,
    Master,
    Rate,
    Verbose,
    accepts,
    rates,
    seconds,
    settings,
)
from headwater.errors import UsageProblem
from headwater.errors.catalogue.programs import OPTIONS_CONFLICT


def check(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A pipeline (.yml, .yaml, .py), or a plain PySpark script.")
    ],
    arguments: Arguments = None,
    offline: Annotated[bool, typer.Option("--offline", help="Start no JVM.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="A warning counts like an error.")] = False,
    master: Master = None,
    conf: Conf = None,
    rate: Rate = None,
    as_json: Json = False,
    as_sarif: Annotated[
        bool, typer.Option("--sarif", help="Print SARIF 2.1.0, for code hosts and editors.")
    ] = False,
    deadline: Deadline = "60s",
    accept: Accepted = None,
    network: Annotated[bool, typer.Option("--allow-network", help="Let a script reach the network.")] = False,
    verbose: Verbose = False,
) -> None:
    """Say what is wrong with a pipeline, or with the queries of a plain script, before they start."""
    from headwater.api.check import check as run_check
    from headwater.cli.check_views import sarif_of, waiting
    from headwater.cli.render import print_json, show_check

    if arguments and "--" not in sys.argv:
        # They would be taken for what a script is called with, and are most likely a slip.
        raise typer.BadParameter(f"what a script is called with comes after --: -- {arguments[0]}")
    if as_json and as_sarif:
        raise UsageProblem(OPTIONS_CONFLICT.at(None, one="--json", other="--sarif"))
    with waiting(as_json=as_json or as_sarif) as emit:
        result = run_check(
            file,
            offline=offline,
            strict=strict,
            master=master,
            conf=settings(conf),
            rates=rates(rate),
            arguments=tuple(arguments or ()),
            deadline=seconds("--deadline", deadline),
            accept=accepts(accept),
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
    plans: Annotated[bool, typer.Option("--plans/--no-plans", help="Show Spark's plans.")] = True,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show the graph, schemas, settings, what each query keeps, and Spark's plans."""
    from headwater.api.explain import explain as run_explain
    from headwater.cli.check_views import waiting
    from headwater.cli.render import print_json, show_explained

    with waiting(as_json=as_json) as emit:
        result = run_explain(file, master=master, conf=settings(conf), rates=rates(rate), emit=emit)
    if as_json:
        print_json(result.to_json())
    else:
        show_explained(result, plans=plans)


def schema(
    connector: Annotated[
        str | None, typer.Option("--connector", metavar="NAME", help="Show the keys of one connector.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the JSON Schema of pipeline files, for editors; or the keys of an installed connector."""
    from headwater.api.project import connector_reference
    from headwater.api.project import schema as pipeline_schema
    from headwater.cli.render import print_json, show_connector

    if connector is None:
        print_json(pipeline_schema())
    elif as_json:
        print_json(connector_reference(connector).to_json())
    else:
        show_connector(connector_reference(connector))
