"""What can be said about the socket source."""

from __future__ import annotations

from pydantic import Field

from headwater.spec import Connector, LongTasks, Schema, SourceOptions, SourceSide


class SocketSource(SourceOptions):
    """Lines of text that a server sends: `value string`, with `arrival_time` also `timestamp timestamp`."""

    also_called = {"includeTimestamp": "arrival_time", "hostname": "host"}

    host: str = Field(min_length=1, description="The machine whose server sends the lines.")
    port: int = Field(gt=0, lt=65536, description="The port on which it listens.")
    arrival_time: bool = Field(
        default=False, description="Add a column `timestamp`: when the line came in, by this machine's clock."
    )


def _columns(options: SocketSource) -> Schema:
    return Schema.of("value string, timestamp timestamp" if options.arrival_time else "value string")


def _goes_on(offset: object) -> bool:
    """Spark counts the lines of one connection, and a new connection begins to count anew: -1 is none yet."""
    if isinstance(offset, list):
        # Of a continuous query: the lines of each partition.
        return not any(isinstance(each, int) and each > 0 for each in offset)
    return not isinstance(offset, int) or offset < 0


def _slots(options: SocketSource, cores: int) -> int:
    # Spark deals the lines out to as many partitions as there are cores, unless told.
    given = {key.lower(): str(value) for key, value in options.options.items()}.get("numpartitions", "")
    return int(given) if given.isdigit() else cores


CONNECTOR = Connector(
    name="socket",
    summary="Lines of text from a socket; for trying things out.",
    spark="headwater.connectors.socket.spark",
    source=SourceSide(
        options=SocketSource,
        replayable=False,
        batch=False,
        columns=_columns,
        goes_on=_goes_on,
        made_while_running=True,
        continuous=LongTasks(_slots),
    ),
)
