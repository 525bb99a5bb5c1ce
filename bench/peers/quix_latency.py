"""Quix Streams' job of the latency benchmark: `python quix_latency.py SETTINGS`, a JSON object."""

from __future__ import annotations

import json
import sys

from quixstreams import Application


def main(settings: dict[str, str]) -> None:
    """Run until the process is stopped; offsets are committed every 5 seconds, the default."""
    application = Application(
        broker_address=settings["servers"],
        consumer_group="latency",
        auto_offset_reset="earliest",
        state_dir=f"{settings['folder']}/state",
        loglevel="WARNING",
        # By default, the client collects messages for 5 ms.
        producer_extra_config={"linger.ms": 0},
    )
    incoming = application.topic(settings["incoming"], value_deserializer="json")
    outgoing = application.topic(settings["outgoing"], value_serializer="json")
    events = application.dataframe(incoming)
    events = events[events["price"] >= 0]
    doubled = events.apply(lambda row: {"id": row["id"], "sent": row["sent"], "doubled": row["price"] * 2})
    doubled.to_topic(outgoing)
    application.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
