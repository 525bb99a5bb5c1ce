"""Base classes of what a connector declares: its typed options, and small values that it answers with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from headwater.values import Position, Secret

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

    position: SkipJsonSchema[Position | None] = Field(default=None, exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.content() == other.content()

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.content()))))

    def content(self) -> dict[str, Any]:
        """Its fields without those that tell where it stands."""
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


def option_text(value: object) -> object:
    """Spark's options are text: numbers and switches are written the way Spark reads them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


OptionValue = Annotated[str | Secret, BeforeValidator(option_text)]


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


# What Spark, Flink, dbt and others call the keys of a pipeline file: written by habit, they suggest the key.
#
# Case and punctuation do not count: `outputMode` stands for `output_mode`, too. A key that a part of the file
# does not have is one at the top.


def _by_name(keys: Mapping[str, str]) -> dict[str, str]:
    return {name: key for key, names in keys.items() for name in names.split()}


_FOLDER = "checkpoint checkpoint_dir checkpoint_location"
_WATERMARK = {"watermark": "event_time event_time_column watermark_column watermark_delay with_watermark"}

OF_PIPELINES = _by_name(
    {
        "sources": "inputs streams",
        "tables": "models queries transformations transforms views",
        "sinks": "destinations outputs targets",
        "functions": "udfs",
        "spark": "conf config configuration spark_conf spark_config",
        "folder": f"{_FOLDER} run_dir storage",
        "timezone": "session_timezone",
        "watermark_policy": "multiple_watermark_policy",
        "jars": "libraries",
        "accept": "ignore suppress",
    }
)
OF_SOURCES = _by_name(
    {
        **_WATERMARK,
        "connector": "kind type",
        "bad_rows": "bad_records bad_records_path on_error",
        "refresh": "refresh_interval",
        "folder": "checkpoint_location",
    }
)
OF_TABLES = _by_name(
    {
        **_WATERMARK,
        "sql": "query select statement",
        "python": "code function",
        "distinct": "dedup deduplicate drop_duplicates unique unique_key",
        "reads": "from input source",
        "expect": "constraints expect_all expect_or_drop expect_or_fail expectations tests",
    }
)
OF_SINKS = _by_name(
    {
        "connector": "kind type",
        "reads": "from input source",
        "mode": "output_mode",
        "trigger": "interval processing_time trigger_interval",
        "folder": _FOLDER,
    }
)
OF_FUNCTIONS = _by_name({"python": "code function", "class": "java_class", "returns": "return_type"})
OF_WATERMARKS = _by_name(
    {"column": "event_time field timestamp", "delay": "delay_threshold lateness threshold"}
)
OF_EXPECTATIONS = _by_name({"check": "condition constraint expression", "else": "action on_violation"})
