"""PyFlink's job of the latency benchmark: `python flink_latency.py SETTINGS`, a JSON object."""

from __future__ import annotations

import json
import sys

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

SOURCE = """
CREATE TABLE events (id BIGINT, sent BIGINT, price DOUBLE) WITH (
  'connector' = 'kafka', 'topic' = '{incoming}', 'properties.bootstrap.servers' = '{servers}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json')
"""
SINK = """
CREATE TABLE doubled (id BIGINT, sent BIGINT, doubled DOUBLE) WITH (
  'connector' = 'kafka', 'topic' = '{outgoing}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json',
  'properties.linger.ms' = '0')
"""
"""By default, the client collects messages for 5 ms."""
QUERY = "INSERT INTO doubled SELECT id, sent, price * 2 AS doubled FROM events WHERE price >= 0"


def main(settings: dict[str, str]) -> None:
    """Run until the process is stopped."""
    configuration = Configuration()
    configuration.set_string("pipeline.jars", settings["jars"])
    configuration.set_string("parallelism.default", settings["cores"])
    # As often as the real-time trigger of Spark commits.
    configuration.set_string("execution.checkpointing.interval", "5 s")
    configuration.set_string("execution.checkpointing.dir", f"file://{settings['folder']}/checkpoints")
    environment = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
    environment.execute_sql(SOURCE.format(**settings))
    environment.execute_sql(SINK.format(**settings))
    environment.execute_sql(QUERY).wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
