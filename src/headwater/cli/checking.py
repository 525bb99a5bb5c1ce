"""`check`, `explain`, `schema`: commands that only look."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.options import Conf, File, Json, Master, Verbose, settings


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    app.command("check")(check)
    app.command("explain")(explain)
    app.command("schema")(schema)


def check(
    file: File,
    offline: Annotated[bool, typer.Option("--offline", help="Start no JVM.")] = False,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Say what is wrong with a pipeline before it starts."""
    from headwater.api.checking import check as run_check
    from headwater.cli.render import print_json, show_check
    from headwater.cli.waiting import waiting

    with waiting(as_json=as_json) as emit:
        result = run_check(file, offline=offline, master=master, conf=settings(conf), emit=emit)
    if as_json:
        print_json(result.to_json())
    else:
        show_check(result, verbose=verbose)
    raise typer.Exit(result.exit_code)


def explain(
    file: File,
    master: Master = None,
    conf: Conf = None,
    plans: Annotated[bool, typer.Option("--plans/--no-plans", help="Show Spark's plans.")] = True,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show the graph, schemas, settings and Spark's plans."""
    from headwater.api.explaining import explain as run_explain
    from headwater.cli.render import print_json, show_explained
    from headwater.cli.waiting import waiting

    with waiting(as_json=as_json) as emit:
        result = run_explain(file, master=master, conf=settings(conf), emit=emit)
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
    from headwater.api.schema import connector_reference
    from headwater.api.schema import schema as pipeline_schema
    from headwater.cli.render import print_json, show_connector

    if connector is None:
        print_json(pipeline_schema())
    elif as_json:
        print_json(connector_reference(connector).to_json())
    else:
        show_connector(connector_reference(connector))
