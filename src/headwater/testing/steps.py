"""The steps of a test: what happens to the pipeline, and what must be true after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from headwater.errors import Place
from headwater.values import Position

Values = Mapping[str, Any] | Sequence[Any]
"""A row as written: values by column, or all of them in column order."""


@dataclass(frozen=True)
class Row:
    """A row as written, and where."""

    values: Values
    place: Place | None = None


Rows = Sequence[Row | Values]
Watermark = Any
"""A time as written (`12:04`, a datetime), or `none` and null for no watermark yet."""


@dataclass(frozen=True)
class Unset:
    """Nothing is expected; a separate value, because None is a valid expectation."""


UNSAID = Unset()


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a test; its checks cover all batches of the step."""

    expect: Mapping[str, Rows] = field(default_factory=dict)
    """The exact rows of a sink: new, changed or all, depending on its mode; all rows of a real sink."""
    watermark: Watermark | Mapping[str, Watermark] | Unset = UNSAID
    """The watermark that the next batch will use, of every query or by sink name."""
    late: int | Mapping[str, int] | Unset = UNSAID
    """How many rows the operators dropped as late, over all queries or by sink name."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """By sink name: the number of state rows, or the rows themselves."""
    idle: Sequence[str] | Unset = UNSAID
    """The idle sources that block the watermark."""
    fails: str | None = None
    """The code or a part of the message with which the query must fail in this step."""
    place: Place | None = None

    word: ClassVar[str] = "check"

    @property
    def text(self) -> str:
        """The step in a few words, for reports."""
        return self.word


@dataclass(frozen=True, kw_only=True)
class Check(Step):
    """No action; the checks cover the batches of the last step that did something."""


@dataclass(frozen=True)
class Feed(Step):
    """One data batch: these rows reach these sources in the same batch."""

    rows: Mapping[str, Rows]

    @property
    def text(self) -> str:
        return "feed " + ", ".join(f"{len(rows)} to {name}" for name, rows in self.rows.items())


@dataclass(frozen=True)
class Advance(Step):
    """Processing time advances, and timers that are due fire."""

    by: str

    @property
    def text(self) -> str:
        return f"advance {self.by}"


@dataclass(frozen=True, kw_only=True)
class Stop(Step):
    """Every query stops between two batches."""

    word = "stop"


@dataclass(frozen=True, kw_only=True)
class Start(Step):
    """The stopped queries resume from their checkpoints."""

    word = "start"


@dataclass(frozen=True, kw_only=True)
class Restart(Step):
    """Stop and start again."""

    word = "restart"


@dataclass(frozen=True, kw_only=True)
class Crash(Step):
    """The run dies after a batch was written to the sink and before it was committed; then it restarts.

    Right after a Feed, it affects the data batch of that step, whose no-data batches come after the crash;
    otherwise, the last batch that ran.
    """

    word = "crash"


@dataclass(frozen=True)
class ChangeTo(Step):
    """The queries stop and resume from their checkpoints with another version of the pipeline."""

    pipeline: Path

    @property
    def text(self) -> str:
        return f"change to {self.pipeline.name}"


@dataclass(frozen=True)
class ReadStep:
    """How a real sink that Headwater cannot read back is read: a function of the user."""

    function: str
    """`"file.py:function"`, called with the Spark session; it returns a DataFrame."""
    place: Position | None = None


@dataclass(frozen=True)
class Test:
    """A test: a pipeline, how its environment is replaced, and the steps."""

    __test__ = False
    """Pytest treats classes of this name as tests."""

    name: str
    pipeline: Path
    steps: Sequence[Step]
    given: Mapping[str, Rows | str] = field(default_factory=dict)
    """The rows of static sources, or the word `real`."""
    real: Mapping[str, ReadStep | None] = field(default_factory=dict)
    """The sinks that stay as declared, and how each is read back if that must be configured."""
    all_real: bool = False
    """Every sink stays as declared (`sinks: real`)."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the pipeline file."""
    day: str | None = None
    """The day of times that are written without one; default: 2026-01-01."""
    clock: str | None = None
    """Processing time at the beginning; default: midnight of the day."""
    no_data_batches: bool | None = None
    """Whether Spark may run batches without data; None leaves this to the pipeline's own settings."""
    file: Path | None = None
    place: Place | None = None


# Variants of a test under harder conditions: rows in a different order, a crash after every feed.


def shuffled(test: Test, number: int) -> Test:
    """The test with the rows of every feed in a different order; the same number gives the same order."""
    random = Random(number)
    steps = [
        replace(step, rows={name: _another_order(fed, random) for name, fed in step.rows.items()})
        if isinstance(step, Feed)
        else step
        for step in test.steps
    ]
    return replace(test, name=f"{test.name} [shuffled {number}]", steps=steps)


def _another_order(rows: Rows, random: Random) -> Rows:
    order = list(range(len(rows)))
    # With two rows, every second shuffle would be the original order.
    while len(order) > 1 and order == sorted(order):
        random.shuffle(order)
    return [rows[index] for index in order]


def crashed(test: Test) -> Test:
    """The test with a crash right after every feed; the expectations of a feed stay with it."""
    return replace(test, name=f"{test.name} [crashed]", steps=list(_with_crashes(test)))


def _with_crashes(test: Test) -> Iterator[Step]:
    running = True
    following: list[Step | None] = [*test.steps[1:], None]
    for step, after in zip(test.steps, following, strict=True):
        running = isinstance(step, Start | Restart | ChangeTo) or (running and not isinstance(step, Stop))
        yield step
        # A stopped query cannot crash, and a failed one is not running.
        if isinstance(step, Feed) and running and step.fails is None and not isinstance(after, Crash):
            yield Crash(place=step.place)
