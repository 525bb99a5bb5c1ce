"""The Nexmark queries that Spark Structured Streaming can express; every Spark variant runs these definitions.

A query is a list of tables. The last one is the result. Tables read the source `events`, the static source
`side_input` (q13) and tables before them. A query that joins the stream with itself declares one table per side,
because Spark reads the source once per side.

q4, q6, q9 and q19 rank rows within a key, q15 and q16 count distinct values; Spark supports neither on a stream. These
and q23 are not included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

DELAY = "4 seconds"
"""The delay of the watermarks, as in the published definition."""


@dataclass(frozen=True)
class Table:
    """A SELECT, and the event-time column that it gives a watermark."""

    name: str
    sql: str
    watermark: str | None = None
    delay: str = DELAY


@dataclass(frozen=True)
class Query:
    """A query of the benchmark."""

    name: str
    title: str
    tables: Sequence[Table]
    mode: Literal["append", "update"] = "append"
    key: Sequence[str] = ()
    """In update mode: the columns that identify a row of the result."""
    difference: str = ""
    """How the definition here differs from the published one."""
    partition_by: Sequence[str] = ()
    """If set, the query writes CSV files with these partition columns instead of discarding its rows."""
    side_input: bool = False
    summed: str = ""
    """If the windows depend on the time of the run: the column whose sum by the first key column does not."""

    @property
    def result(self) -> str:
        """The name of the last table."""
        return self.tables[-1].name

    @property
    def kinds(self) -> Sequence[int]:
        """The event type of each table that reads the events."""
        return [
            int(found) for table in self.tables for found in re.findall("event_type = ([0-2])", table.sql)
        ]


def _bids(name: str = "bid", *, timed: bool = False) -> Table:
    sql = (
        "SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.dateTime, bid.extra "
        "FROM events WHERE event_type = 2"
    )
    return Table(name, sql, "dateTime" if timed else None)


def _auctions(*, timed: bool = False) -> Table:
    sql = (
        "SELECT auction.id, auction.itemName, auction.description, auction.initialBid, auction.reserve, "
        "auction.dateTime, auction.expires, auction.seller, auction.category, auction.extra "
        "FROM events WHERE event_type = 1"
    )
    return Table("auction", sql, "dateTime" if timed else None)


def _people(*, timed: bool = False) -> Table:
    sql = (
        "SELECT person.id, person.name, person.emailAddress, person.creditCard, person.city, person.state, "
        "person.dateTime, person.extra FROM events WHERE event_type = 0"
    )
    return Table("person", sql, "dateTime" if timed else None)


_CHANNEL_ID = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"

_QUERIES = (
    Query(
        "q0",
        "pass through",
        (_bids(), Table("q0", "SELECT auction, bidder, price, dateTime, extra FROM bid")),
    ),
    Query(
        "q1",
        "currency conversion",
        (_bids(), Table("q1", "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid")),
    ),
    Query(
        "q2",
        "selection",
        (_bids(), Table("q2", "SELECT auction, price FROM bid WHERE auction % 123 = 0")),
    ),
    Query(
        "q3",
        "local item suggestion: join of auctions and people",
        (
            _auctions(),
            _people(),
            Table(
                "q3",
                "SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id "
                "WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')",
            ),
        ),
    ),
    Query(
        "q5",
        "hot items: auctions with the most bids in sliding windows",
        (
            _bids(timed=True),
            Table(
                "counts",
                "SELECT auction, window, count(*) AS num FROM bid "
                "GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')",
            ),
            Table(
                "windows",
                "SELECT window, max(num) AS most, collect_list(struct(auction, num)) AS auctions "
                "FROM counts GROUP BY window",
            ),
            Table("q5", "SELECT inline(filter(auctions, each -> each.num = most)) FROM windows"),
        ),
        difference="a second aggregation per window instead of a self-join; the result is the same",
    ),
    Query(
        "q7",
        "highest bid: bids with the highest price of a window",
        (
            _bids(timed=True),
            _bids("bid_of_window", timed=True),
            Table(
                "highest",
                "SELECT max(price) AS price, window FROM bid_of_window GROUP BY window(dateTime, '10 seconds')",
            ),
            Table("ended", "SELECT price, window_time(window) AS at FROM highest"),
            Table(
                "q7",
                "SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra FROM bid b JOIN ended h "
                "ON b.price = h.price AND b.dateTime BETWEEN h.at - INTERVAL 10 SECONDS AND h.at",
            ),
        ),
        difference="a bid at the end of a window does not belong to it",
    ),
    Query(
        "q8",
        "monitor new users: people who opened an auction in the window of their registration",
        (
            _people(timed=True),
            _auctions(timed=True),
            Table(
                "registered",
                "SELECT id, name, window FROM person GROUP BY id, name, window(dateTime, '10 seconds')",
            ),
            Table(
                "opened", "SELECT seller, window FROM auction GROUP BY seller, window(dateTime, '10 seconds')"
            ),
            Table(
                "q8",
                "SELECT r.id, r.name, r.window.start AS stime FROM registered r JOIN opened o "
                "ON r.id = o.seller AND r.window = o.window",
            ),
        ),
    ),
    Query(
        "q10",
        "log to files in partitions",
        (
            _bids(),
            Table(
                "q10",
                "SELECT auction, bidder, price, dateTime, extra, date_format(dateTime, 'yyyy-MM-dd') AS dt, "
                "date_format(dateTime, 'HH-mm') AS hm FROM bid",
            ),
        ),
        partition_by=("dt", "hm"),
        difference="the minute is written 00-01, because Hadoop paths contain no colon",
    ),
    Query(
        "q11",
        "user sessions",
        (
            _bids(timed=True),
            Table(
                "q11",
                "SELECT bidder, count(*) AS bid_count, session_window.start AS starttime, "
                "session_window.end AS endtime FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds')",
            ),
        ),
    ),
    Query(
        "q12",
        "processing-time windows",
        (
            Table(
                "bid",
                "SELECT bid.bidder, current_timestamp() AS p_time FROM events WHERE event_type = 2",
                "p_time",
                "0 seconds",
            ),
            Table(
                "q12",
                "SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime FROM bid "
                "GROUP BY bidder, window(p_time, '10 seconds')",
            ),
        ),
        mode="update",
        key=("bidder", "starttime"),
        difference="all rows of a batch have its start as processing time; counts are emitted as they change",
        summed="bid_count",
    ),
    Query(
        "q13",
        "join with a bounded side input",
        (
            _bids(),
            Table(
                "q13",
                "SELECT b.auction, b.bidder, b.price, b.dateTime, s.value FROM bid b JOIN side_input s "
                "ON b.auction % 10000 = s.key",
            ),
        ),
        side_input=True,
    ),
    Query(
        "q14",
        "calculation",
        (
            _bids(),
            Table(
                "q14",
                "SELECT auction, bidder, 0.908 * price AS price, "
                "CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' "
                "WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END "
                "AS bidTimeType, dateTime, extra, length(extra) - length(translate(extra, 'c', '')) AS c_counts "
                "FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
            ),
        ),
        difference="built-in functions count the letters instead of a function written in Java",
    ),
    Query(
        "q17",
        "auction statistics per day",
        (
            _bids(timed=True),
            Table(
                "q17",
                "SELECT auction, date_format(window.start, 'yyyy-MM-dd') AS day, count(*) AS total_bids, "
                "count_if(price < 10000) AS rank1_bids, "
                "count_if(price >= 10000 AND price < 1000000) AS rank2_bids, "
                "count_if(price >= 1000000) AS rank3_bids, min(price) AS min_price, max(price) AS max_price, "
                "CAST(avg(price) AS BIGINT) AS avg_price, sum(price) AS sum_price "
                "FROM bid GROUP BY auction, window(dateTime, '1 day')",
            ),
        ),
        mode="update",
        key=("auction", "day"),
        difference="the day is a window, so that Spark deletes the state of past days",
    ),
    Query(
        "q18",
        "last bid of each bidder on each auction",
        (
            _bids(),
            Table(
                "last_bid",
                "SELECT bidder, auction, max(struct(dateTime, price, channel, url, extra)) AS last FROM bid "
                "GROUP BY bidder, auction",
            ),
            Table(
                "q18",
                "SELECT auction, bidder, last.price, last.channel, last.url, last.dateTime, last.extra "
                "FROM last_bid",
            ),
        ),
        mode="update",
        key=("auction", "bidder"),
        difference="an aggregate instead of row_number(); of bids in the same millisecond, the highest counts",
    ),
    Query(
        "q20",
        "bids with the details of their auction",
        (
            _bids(),
            _auctions(),
            Table(
                "q20",
                "SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bid_dateTime, "
                "b.extra AS bid_extra, a.itemName, a.description, a.initialBid, a.reserve, "
                "a.dateTime AS auction_dateTime, a.expires, a.seller, a.category, a.extra AS auction_extra "
                "FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10",
            ),
        ),
    ),
    Query(
        "q21",
        "channel ids",
        (
            _bids(),
            Table(
                "q21",
                "SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' "
                "WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' "
                f"ELSE {_CHANNEL_ID} END AS channel_id FROM bid "
                f"WHERE {_CHANNEL_ID} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')",
            ),
        ),
        difference="Spark returns an empty string where an address has no id, not null",
    ),
    Query(
        "q22",
        "directories of the address",
        (
            _bids(),
            Table(
                "q22",
                "SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, "
                "split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid",
            ),
        ),
    ),
)

QUERIES: Mapping[str, Query] = {query.name: query for query in _QUERIES}
