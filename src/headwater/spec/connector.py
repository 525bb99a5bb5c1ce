"""Base classes of a connector: typed options, and capabilities that other code reads as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headwater.errors import Problem
from headwater.spec.schema import Schema
from headwater.values import BadRows, Position, Secret

# What every declared thing has: immutability, a place in the user's file, equality by content.


class Declared(BaseModel):
    """An immutable thing that was declared somewhere.

    Where it was declared is no part of what it is: the YAML and the Python form of one pipeline are equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)

    where_only: ClassVar[frozenset[str]] = frozenset({"position"})
    """Fields that tell where something stands, and no more."""

    also_called: ClassVar[Mapping[str, str]] = {}
    """Keys by the names that Spark, Kafka and others have for them; written, they suggest the key."""

    position: Position | None = Field(default=None, exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self._content()))))

    def _content(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self.where_only}


@dataclass(frozen=True)
class FunctionRef:
    """A user's Python function: the file it stands in and its name there.

    `function` is there when the pipeline was declared in Python and the object is at hand.
    """

    file: str
    name: str
    parameters: tuple[str, ...] = field(default=(), compare=False)
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    place: Position | None = field(default=None, compare=False, repr=False)
    """Where the pipeline names it."""
    defined: Position | None = field(default=None, compare=False, repr=False)
    """Where its `def` stands."""
    optional: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Those of its parameters that have a default."""

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


@dataclass(frozen=True)
class ClassRef(FunctionRef):
    """A user's Python class, named in the same way; `function` is the class when it is at hand."""


def _option_text(value: object) -> object:
    """Spark's options are text: numbers and switches are written the way Spark reads them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


OptionValue = Annotated[str | Secret, BeforeValidator(_option_text)]


class ConnectorOptions(Declared):
    """The keys that stand beside `connector:`; `options` goes to Spark word for word."""

    takes_options: ClassVar[bool] = True
    """Whether Spark does anything with `options`; where it does not, that is no key."""

    options: dict[str, OptionValue] = Field(
        default_factory=dict, description="Anything else Spark takes, passed word for word."
    )

    def secrets(self) -> Iterator[tuple[tuple[str, ...], Secret]]:
        """Every secret among the keys, with the way to its key."""
        for key, value in self.options.items():
            if isinstance(value, Secret):
                yield ("options", key), value

    def hidden_options(self) -> frozenset[str]:
        """The names of Spark's options that hold a secret, which no plan may show."""
        return frozenset(key for key, value in self.options.items() if isinstance(value, Secret))


class SourceOptions(ConnectorOptions):
    """Typed keys of a source."""


class SinkOptions(ConnectorOptions):
    """Typed keys of a sink."""


class Delivery(StrEnum):
    """What a sink does with a batch that comes a second time."""

    IDEMPOTENT = "a replayed batch changes nothing"
    REPEATS = "a replayed batch is written again"
    MARKED = "a replayed batch is written again, with marks by which readers drop the repeats"
    UNCONFIRMED = "a row may be lost unseen, and a replayed batch is written again"
    USER = "a replayed batch is handed to your code again"


def _no_places(_: Any) -> tuple[str, ...]:
    return ()


def _no_keys(_: Any) -> tuple[str, ...]:
    return ()


def _no_functions(_: Any) -> tuple[FunctionRef, ...]:
    return ()


def _no_jars(_: Any) -> tuple[str, ...]:
    return ()


def _always(_: Any) -> bool:
    return True


def _never(_: Any) -> bool:
    return False


def _unknown_columns(_: Any) -> Schema | None:
    return None


def _apart(_: Any, source: Any) -> bool:
    return False


def _as_declared(_: Any) -> Delivery | None:
    return None


def _no_objection(_: Any, columns: Mapping[str, str]) -> Iterable[Problem]:
    return ()


@dataclass(frozen=True)
class Method:
    """A method that a connector calls on objects of a user's class."""

    name: str
    passes: tuple[str, ...] = ()
    """What it is called with, by place."""
    required: bool = True


@dataclass(frozen=True)
class CleanUp:
    """What becomes of finished input: moved to a folder, or deleted where none is named."""

    archive_to: str | None

    @property
    def done(self) -> str:
        """The deed, as a word of a sentence."""
        return "archived" if self.archive_to else "deleted"


def _kept(_: Any) -> CleanUp | None:
    return None


@dataclass(frozen=True)
class Waiting:
    """What a first start finds at a source's places, and how much of it one batch takes."""

    files: int
    bytes: int
    more: bool = False
    """There is more than was counted."""
    keys: tuple[str, ...] = ()
    """The keys that can limit a batch."""
    limit: str = ""
    """The one that does; empty where a batch takes everything."""
    at_most: int = 0
    """How many files or bytes it allows."""
    batches: int = 1
    """How many batches it takes."""


def _unknown_waiting(_: Any) -> Waiting | None:
    return None


def _never_judges(_: Any, bad_rows: BadRows) -> bool:
    return False


def _nothing_against(_: Any) -> Iterable[Problem]:
    return ()


def _unknown_slots(_: Any, cores: int) -> int:
    return 0


@dataclass(frozen=True)
class LongTasks:
    """How a source feeds tasks that don't end: those of `continuous` and `real time`."""

    slots: Callable[[Any, int], int] = field(default=_unknown_slots)
    """From the options and the cores of the cluster to how many such tasks it needs at once, one for each
    partition; 0 where only its server can tell."""
    asks: bool = False
    """Its server can tell; its spark module has a `slots` then."""
    without: tuple[str, ...] = ()
    """The keys that do nothing then, with which it is refused."""


@dataclass(frozen=True)
class SourceSide:
    """What a connector can do as a source."""

    options: type[SourceOptions]
    replayable: bool
    """A batch can be read again with the same rows after a crash."""
    goes_on: Callable[[Any], bool] = field(default=_always)
    """Whether a start can go on from this offset of a checkpoint, given as Spark stores it."""
    batch: bool = True
    """What it holds now can be read as a finished data set (`static: true`, `run --batch`)."""
    refreshes: bool = False
    """A static source can look for changes while a query runs; its spark module has a `read_static`."""
    stream_keys: tuple[str, ...] = ()
    """Keys that do nothing for a static source, which is refused with them."""
    batch_keys: tuple[str, ...] = ()
    """Keys that do nothing for a stream, and count under `run --batch` and for a static source."""
    static_copies: bool = False
    """The driver copies local files of a static source into the run folder (`static/<source>`), where the
    executors read them; other local places the executors read themselves."""
    places: Callable[[Any], tuple[str, ...]] = field(default=_no_places)
    """The absolute paths or addresses it reads; a change of them does not fit an old checkpoint."""
    functions: Callable[[Any], tuple[FunctionRef, ...]] = field(default=_no_functions)
    jars: Callable[[Any], tuple[str, ...]] = field(default=_no_jars)
    """What Spark lacks for it: names of the table in `headwater.jars`, or paths of jars of its own."""
    columns: Callable[[Any], Schema | None] = field(default=_unknown_columns)
    """All columns of its rows, told from the options alone; None where only Spark can tell."""
    clean_up: Callable[[Any], CleanUp | None] = field(default=_kept)
    """What is done with finished input between batches; its spark module has a `clean_up` then."""
    passes_by: Callable[[Any], tuple[str, ...]] = field(default=_no_keys)
    """The keys by which it may leave some of what lies at its places unread for ever."""
    made_while_running: bool = False
    """Its rows come only while a query reads: a start that takes what is there and ends finds none."""
    continuous: LongTasks | None = None
    """How it feeds `trigger: continuous …`; None where it can't."""
    real_time: LongTasks | None = None
    """How it feeds `trigger: real time …`; None where it can't."""
    switches: bool = False
    """A checkpoint goes on under every kind of trigger and with another number of partitions: its offsets
    are written the same way in all."""
    judges: Callable[[Any, BadRows], bool] = field(default=_never_judges)
    """Whether it says of each row if it could be read, given its options and what is to be done with bad
    rows; its spark module has a `read_judged` then. A source that never does takes no `bad_rows`."""
    judging_keys: tuple[str, ...] = ()
    """The fields or properties of its options that decide whether a row can be read."""
    admits: Callable[[Any, BadRows], bool] = field(default=_never_judges)
    """Whether it opens new input before a batch takes it, asked in the same way; its spark module has an
    `admission` then, a task that is done once before the queries start."""
    refuses: Callable[[Any], Iterable[Problem]] = field(default=_nothing_against)
    """What the SourceSpec, as it was declared, can't be held to."""
    fixed_options: tuple[str, ...] = ()
    """Options of Spark whose values can't change while a checkpoint is kept."""
    first_start_keys: tuple[str, ...] = ()
    """Keys that count only where no checkpoint says how far was read."""
    watches: bool = False
    """It looks after what it reads while queries run; its spark module has a `watch` that gives a task."""
    waiting: Callable[[Any], Waiting | None] = field(default=_unknown_waiting)
    """What lies at its places now, told quickly and without Spark; None where that can't be."""
    ignored: Callable[[Any], tuple[str, ...]] = field(default=_no_places)
    """The directories at its places that it does not read, found quickly and without Spark."""


@dataclass(frozen=True)
class SinkSide:
    """What a connector can do as a sink."""

    options: type[SinkOptions]
    modes: frozenset[str]
    delivery: Delivery
    delivery_by: Callable[[Any], Delivery | None] = field(default=_as_declared)
    """Another delivery, where the options choose one."""
    raised_by: str = ""
    """What would raise the delivery, in words."""
    batch: bool = True
    stores: bool = False
    """Rows stay where it writes, so `run --batch` must not write beside the stream without `--into`."""
    appends: bool = False
    """Whatever is written is added to what is there: several sinks may share a place, complete mode writes
    the whole result again and again, and `run --batch` writes to the place itself, with `--append`."""
    passes_over: bool = False
    """A batch that it has already is not computed a second time; its spark module has a `forget_batch`."""
    fixed_keys: tuple[str, ...] = ()
    """Keys whose values can't change while the checkpoint is kept."""
    places: Callable[[Any], tuple[str, ...]] = field(default=_no_places)
    """The places it writes; two sinks on one place are refused."""
    on_driver: bool = False
    """The driver alone writes there, so that the executors of a cluster need not share a local place."""
    feeds: Callable[[Any, Any], bool] = field(default=_apart)
    """Whether a source with the second options reads what a sink with the first ones writes, besides what
    their places tell; such a pipeline feeds itself, and is refused."""
    functions: Callable[[Any], tuple[FunctionRef, ...]] = field(default=_no_functions)
    passes: tuple[str, ...] = ()
    """What its functions are called with, by place."""
    methods: tuple[Method, ...] = ()
    """What it calls on objects of its classes, which it makes without arguments."""
    continuous: bool = False
    """It takes rows one by one from tasks that don't end (`trigger: continuous …`)."""
    real_time: bool = False
    """The same for `trigger: real time …`."""
    reads_back: bool = False
    """What it holds can be read, for tests that keep it; its spark module has a `read_back`."""
    in_process: bool = False
    """Its rows live in this process alone: each start begins anew, and only this process can query them."""
    jars: Callable[[Any], tuple[str, ...]] = field(default=_no_jars)
    """What Spark lacks for it: names of the table in `headwater.jars`, or paths of jars of its own."""
    upkeep: Callable[[Any], bool] = field(default=_never)
    """Whether something is to be done between batches; its spark module has an `upkeep` then."""
    refuses: Callable[[Any, Mapping[str, str]], Iterable[Problem]] = field(default=_no_objection)
    """What the SinkSpec has against rows with these columns, by name and type."""

    def delivers(self, options: Any) -> Delivery:
        """What a sink with these options does with a batch that comes a second time."""
        return self.delivery_by(options) or self.delivery


@dataclass(frozen=True)
class Connector:
    """A connector as others see it; `spark` names the module that talks to Spark, loaded when needed."""

    name: str
    summary: str
    spark: str
    source: SourceSide | None = None
    sink: SinkSide | None = None
