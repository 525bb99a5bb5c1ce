"""`dev`: local servers for development."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Json, Verbose

PORT = 9092
FOLDER = Path(".headwater/dev/kafka")
Port = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65535, help=f"The port on 127.0.0.1: {PORT} if not said; 0 finds one."),
]
Folder = Annotated[
    Path | None, typer.Option("--folder", help=f"Where the broker keeps its data: {FOLDER} if not said.")
]
Topics = Annotated[
    str | None,
    typer.Option(
        "--topics", metavar="NAMES", help="Topics to make, such as impressions:2,clicks (2 partitions, 1)."
    ),
]
Produce = Annotated[
    str | None,
    typer.Option("--produce", metavar="FILE", help="Send each line of this file as a message; - is stdin."),
]
Topic = Annotated[str | None, typer.Option("--topic", help="The topic for --produce; made if not there.")]
Rate = Annotated[
    str | None, typer.Option("--rate", help="How fast to send, such as 100/s; else as fast as it goes.")
]
Key = Annotated[str | None, typer.Option("--key", metavar="FIELD", help="The JSON field that is the key.")]
Repeat = Annotated[bool, typer.Option("--repeat", help="Send the file again and again.")]
Servers = Annotated[
    str | None,
    typer.Option("--servers", metavar="HOST:PORT", help="Start no broker: use the one that runs there."),
]

commands = typer.Typer(no_args_is_help=True, help="Local servers for development.")


@commands.callback()
def group() -> None:
    """Local servers for development."""


@commands.command()
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
    """Run a real Kafka broker on this machine until Ctrl-C, and send it messages."""
    from headwater.api.dev import KafkaOptions
    from headwater.api.dev import kafka as run_kafka
    from headwater.cli.dev_views import feed_of, refuse_contradictions, topics_of, view_of

    refuse_contradictions(
        produce=produce,
        alone={"--topic": topic, "--rate": rate, "--key": key, "--repeat": repeat},
        servers=servers,
        started={"--port": port, "--folder": folder},
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
