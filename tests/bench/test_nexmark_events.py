"""The Nexmark generator keeps to the published rules, and gives equal events for equal seeds."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.nexmark.generator import lines, rows, write_files, write_side_input

EVENTS = 60_000


@pytest.fixture(scope="module")
def events() -> Sequence[dict[str, Any]]:
    return list(rows(EVENTS, seed=1))


def of_kind(events: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event[kind] for event in events if kind in event]


def test_every_50_events_are_a_person_three_auctions_and_46_bids(events: Sequence[dict[str, Any]]) -> None:
    kinds = [event["event_type"] for event in events]
    assert kinds == [0, 1, 1, 1, *[2] * 46] * (EVENTS // 50)
    assert all(
        set(event) == {"event_type", ("person", "auction", "bid")[event["event_type"]]} for event in events
    )


def test_ids_count_up(events: Sequence[dict[str, Any]]) -> None:
    assert [person["id"] for person in of_kind(events, "person")] == list(range(1000, 1000 + EVENTS // 50))
    assert [auction["id"] for auction in of_kind(events, "auction")] == list(
        range(1000, 1000 + EVENTS // 50 * 3)
    )


@pytest.mark.parametrize("rate", [200, 10_000, 30_000])
def test_events_are_evenly_spaced(rate: int) -> None:
    first = datetime(2015, 7, 15)
    for number, event in enumerate(rows(500, rate=rate)):
        (fields,) = (value for value in event.values() if isinstance(value, dict))
        expected = first + timedelta(milliseconds=number * 1000 // rate)
        assert datetime.fromisoformat(fields["dateTime"]) == expected


def test_half_of_the_bids_are_for_a_hot_auction_and_three_quarters_by_a_hot_bidder(
    events: Sequence[dict[str, Any]],
) -> None:
    bids = of_kind(events, "bid")
    hot_auctions = sum(bid["auction"] % 100 == 0 for bid in bids) / len(bids)
    hot_bidders = sum(bid["bidder"] % 100 == 1 for bid in bids) / len(bids)
    # Of the others, one in 100 also hits a hot id.
    assert hot_auctions == pytest.approx(0.505, abs=0.01)
    assert hot_bidders == pytest.approx(0.7525, abs=0.01)


def test_three_quarters_of_the_auctions_have_a_hot_seller(events: Sequence[dict[str, Any]]) -> None:
    auctions = of_kind(events, "auction")
    hot = sum(auction["seller"] % 100 == 0 for auction in auctions) / len(auctions)
    assert hot == pytest.approx(0.7525, abs=0.02)


def test_bids_are_for_recent_auctions_and_by_active_people(events: Sequence[dict[str, Any]]) -> None:
    newest: dict[str, int] = {}
    for event in events:
        for kind in ("person", "auction"):
            if kind in event:
                newest[kind] = event[kind]["id"]
        if "bid" in event:
            # Hot ids are at most 99 old; up to 10 ids ahead do not exist yet.
            assert -100 <= event["bid"]["auction"] - newest["auction"] <= 10
            assert -999 <= event["bid"]["bidder"] - newest["person"] <= 10


def test_prices_spread_over_the_orders_of_magnitude(events: Sequence[dict[str, Any]]) -> None:
    prices = [bid["price"] for bid in of_kind(events, "bid")]
    digits = Counter(len(str(price)) for price in prices)
    assert min(prices) >= 100
    assert max(prices) <= 100_000_000
    assert all(digits[count] / len(prices) == pytest.approx(1 / 6, abs=0.01) for count in range(3, 9))


def test_auctions_end_after_they_start_and_reserve_is_above_the_first_bid(
    events: Sequence[dict[str, Any]],
) -> None:
    auctions = of_kind(events, "auction")
    assert all(auction["expires"] > auction["dateTime"] for auction in auctions)
    assert all(auction["reserve"] > auction["initialBid"] for auction in auctions)
    assert {auction["category"] for auction in auctions} == {10, 11, 12, 13, 14}


def test_half_of_the_bids_come_through_hot_channels_and_nine_of_ten_other_addresses_have_an_id(
    events: Sequence[dict[str, Any]],
) -> None:
    bids = of_kind(events, "bid")
    hot = [bid for bid in bids if bid["channel"] in ("Google", "Facebook", "Baidu", "Apple")]
    others = [bid for bid in bids if bid["channel"].startswith("channel-")]
    assert len(hot) + len(others) == len(bids)
    assert len(hot) / len(bids) == pytest.approx(0.5, abs=0.01)
    assert sum("&channel_id=" in bid["url"] for bid in others) / len(others) == pytest.approx(0.9, abs=0.02)
    assert not any("channel_id" in bid["url"] for bid in hot)
    assert all(len(bid["url"].split("/")) == 7 for bid in bids)


def test_events_have_the_published_average_sizes(events: Sequence[dict[str, Any]]) -> None:
    bids, auctions = of_kind(events, "bid"), of_kind(events, "auction")
    assert sum(32 + len(bid["extra"]) for bid in bids) / len(bids) == pytest.approx(100, abs=2)
    texts = [len(each["itemName"] + each["description"] + each["extra"]) + 48 for each in auctions]
    assert sum(texts) / len(texts) == pytest.approx(500, abs=5)


def test_equal_seeds_give_equal_events_and_a_prefix() -> None:
    longer = list(lines(25_000, seed=3))
    assert list(lines(25_000, seed=3)) == longer
    assert list(lines(10_010, seed=3)) == longer[:10_010]
    assert list(lines(100, seed=4)) != longer[:100]


@pytest.mark.parametrize("per_file", [50, 6_000, 10_000, 14_000])
def test_files_contain_the_lines_in_order(tmp_path: Path, per_file: int) -> None:
    number = 120 if per_file == 50 else 22_000
    written = write_files(tmp_path, number, per_file, seed=5)
    texts = [path.read_text().splitlines() for path in written]
    assert [line for text in texts for line in text] == list(lines(number, seed=5))
    assert all(len(text) == per_file for text in texts[:-1])
    assert sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime) == sorted(written)


def test_a_line_is_compact_json() -> None:
    for line in lines(1000):
        assert json.dumps(json.loads(line), separators=(",", ":")) == line


def test_files_have_whole_epochs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="multiple of 50"):
        write_files(tmp_path, 100, 30)


def test_the_side_input_maps_each_key_to_itself(tmp_path: Path) -> None:
    write_side_input(tmp_path / "side.csv")
    written = (tmp_path / "side.csv").read_text().splitlines()
    assert written == [f"{key},{key}" for key in range(10_000)]
