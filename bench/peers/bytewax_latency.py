"""Bytewax's job of the latency benchmark: `python bytewax_latency.py SETTINGS`, a JSON object."""

from __future__ import annotations

import json
import sys

import bytewax.operators as op
from bytewax._bytewax import cli_main
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow


def doubled(message: KafkaSourceMessage[bytes | None, bytes]) -> KafkaSinkMessage[bytes | None, bytes] | None:
    """The outgoing message; None if the filter drops it."""
    row = json.loads(message.value)
    if not row["price"] >= 0:
        return None
    result = {"id": row["id"], "sent": row["sent"], "doubled": row["price"] * 2}
    return KafkaSinkMessage(message.key, json.dumps(result).encode())


def dataflow(settings: dict[str, str]) -> Dataflow:
    """Kafka to Kafka; the sink waits for the acknowledgements of each batch."""
    flow, brokers = Dataflow("latency"), [settings["servers"]]
    messages = op.input("events", flow, KafkaSource(brokers, [settings["incoming"]]))
    results = op.filter_map("doubled", messages, doubled)
    # By default, the client collects messages for 5 ms.
    op.output("out", results, KafkaSink(brokers, settings["outgoing"], add_config={"linger.ms": "0"}))
    return flow


if __name__ == "__main__":
    cli_main(dataflow(json.loads(sys.argv[1])), workers_per_process=1)
