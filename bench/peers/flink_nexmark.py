"""PyFlink's jobs of the Nexmark benchmark: `python flink_nexmark.py SETTINGS`, a JSON object.

Without `rows`, the query runs on a small topic, which warms the JVM up, and then on the whole one, and discards its
rows. With `rows`, several queries run, and write the changes of their results to files in that directory.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

EVENTS = """
CREATE TABLE {name} (
  event_type INT,
  person ROW<`id` BIGINT, `name` STRING, `emailAddress` STRING, `creditCard` STRING, `city` STRING, `state` STRING,
    `dateTime` TIMESTAMP(3), `extra` STRING>,
  auction ROW<`id` BIGINT, `itemName` STRING, `description` STRING, `initialBid` BIGINT, `reserve` BIGINT,
    `dateTime` TIMESTAMP(3), `expires` TIMESTAMP(3), `seller` BIGINT, `category` BIGINT, `extra` STRING>,
  bid ROW<`auction` BIGINT, `bidder` BIGINT, `price` BIGINT, `channel` STRING, `url` STRING, `dateTime` TIMESTAMP(3),
    `extra` STRING>,
  `dateTime` AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
  p_time AS PROCTIME(),
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601')
"""
VIEWS = (
    """CREATE VIEW person AS SELECT person.id AS id, person.name AS name, person.emailAddress AS emailAddress,
    person.creditCard AS creditCard, person.city AS city, person.state AS state, `dateTime`,
    person.extra AS extra FROM {name} WHERE event_type = 0""",
    """CREATE VIEW auction AS SELECT auction.id AS id, auction.itemName AS itemName,
    auction.description AS description, auction.initialBid AS initialBid, auction.reserve AS reserve, `dateTime`,
    auction.expires AS expires, auction.seller AS seller, auction.category AS category, auction.extra AS extra
    FROM {name} WHERE event_type = 1""",
    """CREATE VIEW bid AS SELECT bid.auction AS auction, bid.bidder AS bidder, bid.price AS price,
    bid.channel AS channel, bid.url AS url, `dateTime`, p_time, bid.extra AS extra FROM {name} WHERE event_type = 2""",
)
_COUNTS = """SELECT auction, count(*) AS num, window_start, window_end FROM TABLE(
    HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end"""
_CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
QUERIES = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id
    WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q5": f"""SELECT a.auction, a.num FROM ({_COUNTS}) AS a JOIN (
    SELECT max(num) AS most, window_start, window_end FROM ({_COUNTS}) GROUP BY window_start, window_end) AS m
    ON a.window_start = m.window_start AND a.window_end = m.window_end AND a.num = m.most""",
    "q7": """SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra FROM bid AS b JOIN (
    SELECT max(price) AS price, window_time AS at_end
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end, window_time) AS h
    ON b.price = h.price AND b.`dateTime` BETWEEN h.at_end - INTERVAL '9.999' SECOND AND h.at_end""",
    "q8": """SELECT r.id, r.name, r.window_start FROM (
    SELECT id, name, window_start, window_end
    FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
    GROUP BY id, name, window_start, window_end) AS r JOIN (
    SELECT seller, window_start, window_end
    FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
    GROUP BY seller, window_start, window_end) AS o
    ON r.id = o.seller AND r.window_start = o.window_start AND r.window_end = o.window_end""",
    "q10": """SELECT auction, bidder, price, `dateTime`, extra, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS dt,
    DATE_FORMAT(`dateTime`, 'HH-mm') AS hm FROM bid""",
    "q11": """SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime FROM TABLE(
    SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
    GROUP BY bidder, window_start, window_end""",
    "q12": """SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime FROM TABLE(
    TUMBLE(TABLE bid, DESCRIPTOR(p_time), INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end""",
    "q14": """SELECT auction, bidder, 0.908 * price AS price,
    CASE WHEN HOUR(`dateTime`) BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
    `dateTime`, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts FROM bid
    WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q17": """SELECT auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS bid_day, count(*) AS total_bids,
    count(*) FILTER (WHERE price < 10000) AS rank1_bids,
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (WHERE price >= 1000000) AS rank3_bids, min(price) AS min_price, max(price) AS max_price,
    avg(price) AS avg_price, sum(price) AS sum_price FROM bid
    GROUP BY auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')""",
    "q18": """SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS place FROM bid)
    WHERE place <= 1""",
    "q20": """SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.`dateTime` AS bid_dateTime, b.extra AS bid_extra,
    a.itemName, a.description, a.initialBid, a.reserve, a.`dateTime` AS auction_dateTime, a.expires, a.seller,
    a.category, a.extra AS auction_extra FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10""",
    "q21": f"""SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0'
    WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_CHANNEL_ID} END AS channel_id
    FROM bid WHERE {_CHANNEL_ID} IS NOT NULL OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1,
    SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid""",
}
"""All queries of the benchmark but q13: Flink's files cannot be looked up, and a plain join would keep every bid."""
FILES = """
CREATE TABLE {sink} (auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING, dt STRING,
hm STRING) PARTITIONED BY (dt, hm) WITH (
'connector' = 'filesystem', 'path' = 'file://{folder}/{sink}', 'format' = 'csv')
"""


def environment(settings: dict[str, str], topic: str, name: str) -> TableEnvironment:
    """The tables over one topic."""
    configuration = Configuration()
    configuration.set_string("pipeline.jars", settings["jars"])
    configuration.set_string("parallelism.default", settings["cores"])
    configuration.set_string("table.local-time-zone", "UTC")
    configuration.set_string("execution.checkpointing.interval", "5 s")
    configuration.set_string("execution.checkpointing.dir", f"file://{settings['folder']}/checkpoints")
    if settings["query"] != "q10":
        # Otherwise, a bounded job waits for one more checkpoint after its last row; only a sink to files needs it.
        configuration.set_string("execution.checkpointing.checkpoints-after-tasks-finish", "false")
    made = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
    made.execute_sql(EVENTS.format(name=name, topic=topic, servers=settings["servers"]))
    for view in VIEWS:
        made.execute_sql(view.format(name=name))
    return made


def run(settings: dict[str, str], topic: str, sink: str) -> float:
    """Run the query on a topic, and return the seconds from the start of its tasks to their end."""
    tables, query = environment(settings, topic, f"events_{sink}"), QUERIES[settings["query"]]
    if settings["query"] == "q10":
        tables.execute_sql(FILES.format(sink=sink, folder=settings["folder"]))
    else:
        columns = tables.sql_query(query).get_resolved_schema()
        declared = ", ".join(
            f"`{name}` {kind}" for name, kind in zip(columns.get_column_names(), _types(columns), strict=True)
        )
        tables.execute_sql(f"CREATE TABLE {sink} ({declared}) WITH ('connector' = 'blackhole')")
    client = tables.execute_sql(f"INSERT INTO {sink} {query}").get_job_client()
    assert client is not None
    return float(client.get_job_execution_result().result().get_net_runtime()) / 1000


def _types(columns: Any) -> list[str]:
    """The types of the columns as SQL; the time attributes become plain timestamps."""
    kinds = [str(kind) for kind in columns._j_resolved_schema.getColumnDataTypes()]
    return [
        kind.replace(" *ROWTIME*", "").replace(" *PROCTIME*", "").replace(" NOT NULL", "") for kind in kinds
    ]


def write_rows(settings: dict[str, str]) -> None:
    """Write the changes of each query to a file of its name, one per line: the kind, and the values."""
    tables = environment(settings, settings["topic"], "events")
    for name in settings["query"].split():
        with (
            Path(settings["rows"], f"{name}.json").open("w", encoding="utf-8") as file,
            tables.execute_sql(QUERIES[name]).collect() as changes,
        ):
            for row in changes:
                file.write(json.dumps([str(row.get_row_kind()), [_plain(value) for value in row]]) + "\n")


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    return str(value) if isinstance(value, datetime) else value


def cpu_seconds() -> float:
    """CPU time of this process and of the JVM that it started."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(os.getpid()) in (stat.parent.name, fields[1]):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main(settings: dict[str, str]) -> None:
    """Write the rows, or measure and print the seconds."""
    if settings.get("rows"):
        write_rows(settings)
        return
    run(settings, settings["warm_up_topic"], "warm_up")
    before = cpu_seconds()
    seconds = run(settings, settings["topic"], "measured")
    print(json.dumps({"seconds": seconds, "cpu": cpu_seconds() - before}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
