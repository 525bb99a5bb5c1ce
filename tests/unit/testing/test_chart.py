from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from headwater.testing.chart import LABEL_GAP, apart, draw
from headwater.testing.results import Batch, StepTrace, TestResult
from tests.unit.testing.stories import (
    NOON,
    OUTPUT,
    WORDS,
    at,
    feed,
    result,
    textbook,
    without_no_data_batches,
)

SVG = "{http://www.w3.org/2000/svg}"
MINUTE = 60_000


def parsed(told: TestResult, sink: str | None = None) -> Element:
    return ElementTree.fromstring(draw(told, sink))


def of_class(root: Element, name: str) -> list[Element]:
    return [each for each in root.iter() if name in each.get("class", "").split()]


def number(element: Element, name: str) -> float:
    return float(element.attrib[name])


def rows(root: Element) -> dict[tuple[str, str], tuple[float, float]]:
    """The place of each row, by its batch and its label."""
    found = {}
    for row in of_class(root, "row"):
        circle, title = row.find(f"{SVG}circle"), row.findtext(f"{SVG}title") or ""
        assert circle is not None
        found[row.attrib["data-batch"], title.rpartition(" (")[0]] = (
            number(circle, "cx"),
            number(circle, "cy"),
        )
    return found


def points(line: Element) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in line.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


def texts(root: Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def ticks(root: Element) -> dict[str, float]:
    """The heights of the axis, by label."""
    (axis,) = of_class(root, "axis")
    return {each.text or "": number(each, "y") - 4 for each in axis.iter(f"{SVG}text")}


def height(root: Element, time: str) -> float:
    """Where a time must stand, measured by two ticks of the axis."""
    low, high = ticks(root)["12:00"], ticks(root)["12:30"]
    minutes = (at(time) - at("12:00")) / timedelta(minutes=1)
    return low - (low - high) * minutes / 30


def step(
    number: int, text: str, fed: dict[str, list[dict[str, Any]]] | None = None, *batches: Batch, **more: Any
) -> StepTrace:
    rows = {name: tuple(each) for name, each in (fed or {}).items()}
    return StepTrace(
        number, text, more.pop("clock", NOON), rows, {"out": batches}, {"out": more.get("after")}
    )


@pytest.fixture(scope="module")
def book() -> Element:
    return parsed(textbook())


def test_rows_stand_at_their_batch_and_their_event_time(book: Element) -> None:
    placed = rows(book)
    assert sorted(placed) == [
        *[("0", "12:07 owl"), ("0", "12:08 dog")],
        *[("2", "12:09 cat"), ("2", "12:14 dog")],
        *[("4", "12:08 dog"), ("4", "12:13 owl"), ("4", "12:15 cat")],
        *[("6", "12:17 cat"), ("6", "12:21 owl")],
        *[("8", "12:04 donkey"), ("8", "12:26 owl")],
    ]
    for (_, label), (_, y) in placed.items():
        assert y == pytest.approx(height(book, label.split()[0]), abs=0.15)
    by_batch = {batch: {x for (each, _), (x, _) in placed.items() if each == batch} for batch, _ in placed}
    assert all(len(places) == 1 for places in by_batch.values())
    order = [place for _, places in sorted(by_batch.items()) for place in places]
    assert order == sorted(order)


def test_only_the_donkey_is_late(book: Element) -> None:
    (late,) = of_class(book, "dropped")
    assert late.findtext(f"{SVG}title") == "12:04 donkey (words)"
    assert len(late.findall(f"{SVG}line")) == 2
    circle = late.find(f"{SVG}circle")
    assert circle is not None
    assert circle.get("fill") == "#fff"
    assert of_class(book, "behind") == []
    assert len(of_class(book, "kept")) == 10


def test_the_watermark_steps_where_a_batch_uses_another_one(book: Element) -> None:
    (watermark,) = of_class(book, "watermark")
    line = points(watermark)
    levels = list(dict.fromkeys(y for _, y in line))
    expected = [height(book, time) for time in ("11:58", "12:04", "12:05", "12:11", "12:16")]
    assert levels == pytest.approx(expected, abs=0.15)
    assert [x for x, _ in line] == sorted(x for x, _ in line)
    for (x, y), (further, other) in pairwise(line):
        assert x == further or y == other
    donkey = rows(book)["8", "12:04 donkey"]
    assert donkey[1] > height(book, "12:11")


def test_the_newest_time_never_goes_back(book: Element) -> None:
    (newest,) = of_class(book, "newest")
    levels = list(dict.fromkeys(y for _, y in points(newest)))
    expected = [height(book, time) for time in ("12:08", "12:14", "12:15", "12:21", "12:26")]
    assert levels == pytest.approx(expected, abs=0.15)


def test_the_lines_are_named_at_their_ends(book: Element) -> None:
    (ends,) = of_class(book, "ends")
    assert [each.text for each in ends] == ["newest 12:26", "watermark 12:16"]
    places = [number(each, "y") - 4 for each in ends]
    assert places == pytest.approx([height(book, "12:26"), height(book, "12:16")], abs=0.2)
    assert "row of words (event time: at, delay: 10 minutes)" in texts(book)


def test_windows_of_a_batch_reach_from_start_to_end_and_do_not_overlap(book: Element) -> None:
    batches = of_class(book, "windows")
    assert [len(each) for each in batches] == [2, 0, 3, 0, 4, 0, 3, 0, 2, 0]
    boxes = [
        (number(box, "x"), number(box, "y") - 1, number(box, "width"), number(box, "height") + 2)
        for box in batches[4]
    ]
    starts = ["12:00", "12:05", "12:10", "12:15"]
    for (_, y, _, tall), start in zip(boxes, starts, strict=True):
        assert y + tall == pytest.approx(height(book, start), abs=0.25)
        assert tall == pytest.approx(height(book, "12:00") - height(book, "12:10"), abs=0.25)
    for index, (x, y, wide, tall) in enumerate(boxes):
        for other_x, other_y, other_wide, other_tall in boxes[index + 1 :]:
            beside = x + wide <= other_x or other_x + other_wide <= x
            assert beside or y + tall <= other_y + 0.2 or other_y + other_tall <= y + 0.2
    assert [each.text for each in of_class(book, "texts")[0]] == ["dog 1", "owl 1", "dog 1", "owl 1"]


def test_batches_without_data_are_marked_and_narrower(book: Element) -> None:
    found = texts(book)
    assert [each for each in found if each.startswith("batch ")] == [
        *[f"batch {number}" for number in range(10)],
        "batch without data",
    ]
    assert found.count("no data") == 5
    shades = [each for each in book.findall(f"{SVG}rect") if each.get("fill") == "#f3f4f6"]
    starts = [number(each, "x") for each in shades]
    assert len(shades) == 5
    assert all(number(shade, "width") < 70 for shade in shades)
    assert min(after - before for before, after in pairwise(starts)) > 2 * 70


def test_counts_stand_below(book: Element) -> None:
    (counts,) = of_class(book, "counts")
    table = [[each.text for each in line] for line in counts]
    assert table[0] == ["rows in", "2", "0", "2", "0", "3", "0", "2", "0", "2", "0"]
    assert table[2] == ["late", "0", "0", "0", "0", "0", "0", "0", "0", "2", "0"]


def test_it_says_what_it_is(book: Element) -> None:
    assert book.get("role") == "img"
    assert book.findtext(f"{SVG}title") == "late rows update old windows until the watermark passes"
    assert book.findtext(f"{SVG}desc") == (
        "Event time against the batches of sink counts. Batches: 10; rows: 11; dropped as late: 1."
        " The watermark at the end is 12:16."
    )
    background = book.find(f"{SVG}rect")
    assert background is not None
    assert background.get("fill") == "#fff"
    assert [background.get(side) for side in ("width", "height")] == [book.get("width"), book.get("height")]
    assert [
        each.tag for each in book.iter() if each.tag in (f"{SVG}script", f"{SVG}style", f"{SVG}image")
    ] == []


def test_everything_is_inside_the_picture(book: Element) -> None:
    wide, tall = number(book, "width"), number(book, "height")
    signs = [each for each in book.iter() if each.get("transform", "").startswith("translate(")]
    for sign in signs:
        x, y = (float(each) for each in sign.attrib["transform"][10:-1].split())
        assert 12 <= x <= wide - 12
        assert 8 <= y <= tall - 8
    inside_signs = {part for sign in signs for part in sign}
    for each in book.iter():
        if each in inside_signs:
            continue
        assert all(0 <= number(each, name) <= wide for name in ("x", "cx", "x1", "x2") if name in each.attrib)
        assert all(0 <= number(each, name) <= tall for name in ("y", "cy", "y1", "y2") if name in each.attrib)


def test_a_row_that_found_one_of_its_windows_open_is_not_called_dropped() -> None:
    root = parsed(without_no_data_batches())
    assert of_class(root, "dropped") == []
    assert [each.findtext(f"{SVG}title") for each in of_class(root, "behind")] == ["12:04 donkey (words)"]


@pytest.mark.parametrize(
    ("late", "fates"), [(0, ["kept", "kept"]), (1, ["kept", "dropped"]), (2, ["kept", "behind"])]
)
def test_a_row_is_called_dropped_only_where_that_explains_the_count(late: int, fates: list[str]) -> None:
    told = result(
        [
            feed(1, ["12:30 owl"], (None, [], 0, 1), ("12:20", [], 0, 1), first=0, after="12:20"),
            feed(2, ["12:31 owl", "12:10 dog"], ("12:20", [], late, 1), first=2, after="12:21"),
        ],
        WORDS,
    )
    found = of_class(parsed(told), "row")
    assert [each.attrib["class"].split()[1] for each in found if each.get("data-batch") == "2"] == fates


def test_sessions_are_late_when_their_gap_is_over() -> None:
    def session(start: str, minutes: int) -> dict[str, Any]:
        return {"session": {"start": at(start), "end": at(start) + timedelta(minutes=minutes)}, "user": "u"}

    out = (session("12:00", 5), session("12:10", 8))
    told = result(
        [
            step(
                1,
                "feed 1 to words",
                {"words": [{"at": at("12:30")}]},
                Batch(0, at("12:20"), {"words": 1}, out, 0, 1),
            ),
            step(
                2,
                "feed 2 to words",
                {"words": [{"at": at("12:15")}, {"at": at("12:16")}]},
                Batch(1, at("12:20"), {"words": 2}, (), 1, 1),
            ),
        ],
        WORDS,
    )
    root = parsed(told)
    assert [each.findtext(f"{SVG}title") for each in of_class(root, "dropped")] == ["12:15 (words)"]


def test_what_happens_between_batches_is_marked() -> None:
    row = {"words": [{"at": at("12:00"), "word": "owl"}]}
    told = result(
        [
            step(1, "feed 1 to words", row, Batch(0, None, {"words": 1}, (), 0, 1)),
            step(2, "crash", None, Batch(0, None, {"words": 1}, (), 0, 1, retried=True)),
            step(3, "stop"),
            step(4, "feed 1 to words", {"words": [{"at": at("12:01"), "word": "cat"}]}),
            step(5, "start", None, Batch(1, None, {"words": 1}, (), 0, 1)),
            step(6, "advance 2 hours", clock=at("14:00")),
        ],
        WORDS,
    )
    root = parsed(told)
    assert [each.findtext(f"{SVG}text") for each in of_class(root, "mark")] == [
        "crash",
        "stop · start",
        "advance 2 hours, to 14:00",
    ]
    assert "retry" in texts(root)
    assert [each.get("data-batch") for each in of_class(root, "row")] == ["0", "0", "1"]
    assert rows(root)["1", "12:01 cat"][1] < rows(root)["0", "12:00 owl"][1]


def test_each_source_has_a_colour_and_a_line_and_the_slower_one_holds_the_watermark() -> None:
    fed: dict[str, list[dict[str, Any]]] = {
        "impressions": [{"shown": at("22:00"), "ad": "a"}],
        "clicks": [{"ad": "a", "clicked": at("+00:30")}, {"ad": "b", "clicked": None}],
    }
    batches = (Batch(0, None, {"impressions": 1, "clicks": 2}, (), 0, 2), Batch(1, at("20:00"), {}, (), 0, 2))
    told = result(
        [step(1, "feed 1 to impressions, 2 to clicks", fed, *batches, after=at("20:00"))],
        {"impressions": ("shown", 120 * MINUTE), "clicks": ("clicked", 60 * MINUTE)},
    )
    root = parsed(told)
    lines = of_class(root, "newest")
    assert [each.get("data-source") for each in lines] == ["impressions", "clicks"]
    assert len({each.get("stroke") for each in lines}) == 2
    (ends,) = of_class(root, "ends")
    assert [each.text for each in ends] == [
        "clicks 2 Jan 00:30",
        "impressions 22:00",
        "watermark 20:00",
    ]
    assert [each for each in ticks(root) if "Jan" in each] == ["2 Jan 00:00"]
    assert "not drawn (no event time): 1" in texts(root)


def test_times_are_shown_in_the_zone_of_the_pipeline() -> None:
    steps = [feed(1, ["12:07 owl"], (None, [], 0, 1), first=0, after="11:57")]
    root = parsed(result(steps, WORDS, zone="America/New_York"))
    assert {"07:07 owl", "newest 07:07", "watermark 06:57"} <= set(texts(root))
    assert "07:07 owl" not in texts(parsed(result(steps, WORDS, zone="GMT+3")))


def test_a_time_far_from_all_others_keeps_the_order_of_the_axis() -> None:
    steps = [
        feed(1, ["12:00 a", "12:01 b", "12:02 c"], (None, [], 0, 3), first=0, after="11:52"),
        feed(2, ["+18:00 flush"], ("11:52", [], 0, 4), first=1, after="+17:50"),
    ]
    placed = rows(parsed(result(steps, WORDS)))
    ordered = [placed[each][1] for each in sorted(placed)[:3]] + [placed["1", "2 Jan 18:00 flush"][1]]
    assert ordered == sorted(ordered, reverse=True)


@pytest.mark.parametrize("name", ["<&>\"'", "\x00\x1b", "a" * 300, "ж 🦉"])
def test_any_value_can_be_drawn(name: str) -> None:
    row = {"at": at("12:00"), "word": name}
    out = ({"start": at("12:00"), "end": at("12:10"), "word": name},)
    told = result(
        [step(1, "feed 1 to words", {"words": [row]}, Batch(0, None, {"words": 1}, out, 0, 1))], WORDS, name
    )
    root = parsed(told)
    shown = [each for each in texts(root) if each.startswith("12:00 ")]
    assert len(shown) == 1
    if len(name) < 6 and name.isprintable():
        assert shown == [f"12:00 {name}"]
        assert root.findtext(f"{SVG}title") == name


def test_labels_of_many_rows_stand_apart_and_the_rest_is_counted() -> None:
    fed = [{"at": NOON + timedelta(seconds=index), "word": f"w{index}"} for index in range(60)]
    out = tuple(
        {"start": NOON + timedelta(minutes=index), "end": NOON + timedelta(minutes=index + 1), "n": index}
        for index in range(9)
    )
    told = result(
        [step(1, "feed 60 to words", {"words": fed}, Batch(0, None, {"words": 60}, out, 0, 1))], WORDS
    )
    root = parsed(told)
    labels = [each for each in root.iter(f"{SVG}text") if (each.text or "").partition(" ")[2][:1] == "w"]
    heights = sorted(number(each, "y") for each in labels)
    assert len(labels) == 23
    assert min(b - a for a, b in pairwise(heights)) >= LABEL_GAP - 0.11
    assert {"+37 more", "+3 more"} <= set(texts(root))
    assert len(of_class(root, "row")) == 60


FEW = (["12:00 a"], ["12:05 b", "12:05 c"], ["12:10 d", "12:02 e"])


@pytest.mark.parametrize("count", [1, 40])
def test_any_number_of_batches_fits(count: int) -> None:
    steps = [
        feed(index + 1, FEW[index % 3], (None, OUTPUT[index % 3], 0, 1), first=index, after="11:50")
        for index in range(count)
    ]
    root = parsed(result(steps, WORDS))
    assert len(of_class(root, "windows")) == count
    assert 400 < number(root, "width") < 450 + 220 * count
    assert f"batch {count - 1}" in texts(root)


def test_without_event_times_rows_are_counted() -> None:
    told = result(
        [
            step(1, "feed 2 to a", {"a": [{"x": 1}] * 2}, Batch(0, None, {"a": 2}, ({"x": 1},), 0, 0)),
            step(2, "restart"),
            step(3, "feed 4 to a", {"a": [{"x": 1}] * 4}, Batch(1, None, {"a": 4, "b": 3}, (), 0, 0)),
        ],
        {},
    )
    root = parsed(told)
    (counts,) = of_class(root, "counts")
    assert [[each.text for each in line] for line in counts] == [
        ["rows in", "2", "7"],
        ["rows out", "1", "0"],
    ]
    assert "no row has an event time" in texts(root)
    assert [each.findtext(f"{SVG}text") for each in of_class(root, "mark")] == ["restart"]


def test_a_test_without_batches_says_so() -> None:
    assert "no batch ran" in texts(parsed(result([], {})))
    assert "no batch ran" in texts(parsed(textbook(), "other"))


def test_a_sink_can_be_chosen() -> None:
    batch = Batch(0, None, {"words": 1}, (), 0, 0)
    fed = {"words": ({"at": at("12:00"), "word": "owl"},)}
    told = result(
        [StepTrace(1, "feed 1 to words", NOON, fed, {"a": (), "b": (batch,), "c": (batch,)})], WORDS
    )
    assert any(each.startswith("sink b ") for each in texts(parsed(told)))
    assert any(each.startswith("sink c ") for each in texts(parsed(told, "c")))


def test_the_same_result_gives_the_same_file_in_every_process() -> None:
    root = Path(__file__).parents[3]
    command = (
        "from tests.unit.testing.stories import textbook; from headwater.testing.chart import draw;"
        " print(draw(textbook()), end='')"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", command],
            cwd=root,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert drawn == {draw(textbook()).encode()}


def test_labels_move_down_and_stay_above_the_bottom() -> None:
    assert apart([10, 10, 50], 100) == [10, 10 + LABEL_GAP, 50]
    assert apart([99, 100], 100) == [100 - LABEL_GAP, 100]
    assert apart([], 100) == []
