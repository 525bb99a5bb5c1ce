"""`dev`: local servers for development."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Command, Json, Verbose

PORT = 9092
FOLDER = Path(".headwater/dev/kafka")
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        min=0,
        max=65535,
        help=f"Port on 127.0.0.1; 0 picks a free one [default: {PORT}]",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help=f"Data directory of the broker [default: {FOLDER}]"),
]
Topics = Annotated[
    str | None,
    typer.Option(
        "--topics",
        metavar="NAMES",
        help="Topics to create, such as impressions:2,clicks (2 partitions and 1)",
    ),
]
Produce = Annotated[
    str | None,
    typer.Option("--produce", metavar="FILE", help="Send each line of this file as a message; - reads stdin"),
]
Topic = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help="Topic for --produce; created if it does not exist"),
]
Rate = Annotated[
    str | None, typer.Option("--rate", metavar="RATE", help="Send rate, such as 100/s [default: unlimited]")
]
Key = Annotated[
    str | None, typer.Option("--key", metavar="FIELD", help="JSON field to use as the message key")
]
Repeat = Annotated[bool, typer.Option("--repeat", help="Send the file repeatedly")]
Servers = Annotated[
    str | None,
    typer.Option("--bootstrap-server", metavar="HOST:PORT", help="Use this broker instead of starting one"),
]

commands = typer.Typer(no_args_is_help=True, help="Run local servers for development.")


@commands.callback()
def group() -> None:
    """Run local servers for development."""


@commands.command(cls=Command)
def kafka(
    port: Port = None,
    folder: Folder = None,
    topics: Topics = None,
    produce: Produce = None,
    topic: Topic = None,
    rate: Rate = None,
    key: Key = None,
    repeat: Repeat = False,
    servers: Servers = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run a local Kafka broker until Ctrl-C, and send messages to it."""
    from headwater.api.dev import KafkaOptions
    from headwater.api.dev import kafka as run_kafka
    from headwater.cli.dev_views import feed_of, refuse_contradictions, topics_of, view_of

    refuse_contradictions(
        produce=produce,
        alone={"--topic": topic, "--rate": rate, "--key": key, "--repeat": repeat},
        servers=servers,
        started={"--port": port, "--data-dir": folder},
        asked=bool(topics or produce),
    )
    options = KafkaOptions(
        folder=folder or FOLDER,
        port=PORT if port is None else port,
        topics=topics_of(topics),
        feed=feed_of(produce, topic, rate, key, repeat=repeat),
        servers=servers,
    )
    raise typer.Exit(run_kafka(options, view_of(as_json=as_json)))


POSTGRES_PORT = 5432
POSTGRES_FOLDER = Path(".headwater/dev/postgres")


@commands.command(cls=Command)
def postgres(
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="Port on 127.0.0.1; 0 picks a free one"
        ),
    ] = POSTGRES_PORT,
    folder: Annotated[
        Path, typer.Option("--data-dir", metavar="DIR", help="Data directory of the server")
    ] = POSTGRES_FOLDER,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run a local PostgreSQL server until Ctrl-C."""
    from headwater.api.dev import postgres as run_postgres
    from headwater.cli.dev_views import view_of

    raise typer.Exit(run_postgres(folder, port, view_of(as_json=as_json)))
