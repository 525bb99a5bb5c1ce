"""Base classes for what a connector declares: its typed options, and the small values it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from headwater.values import Position, Secret

# Every declared object is immutable, has a position in the user's file, and is compared by content.


class Declared(BaseModel):
    """An immutable declared object.

    Its position does not affect equality: the YAML and the Python form of one pipeline are equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)

    where_only: ClassVar[frozenset[str]] = frozenset({"position"})
    """Fields that hold only positions."""

    also_called: ClassVar[Mapping[str, str]] = {}
    """Keys by the names that Spark, Kafka and other tools use; such a name gets the key as a suggestion."""

    position: SkipJsonSchema[Position | None] = Field(default=None, exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.content() == other.content()

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.content()))))

    def content(self) -> dict[str, Any]:
        """Its fields without positions."""
        return {name: value for name, value in self.__dict__.items() if name not in self.where_only}


@dataclass(frozen=True)
class FunctionRef:
    """A user's Python function: its file and its name in that file.

    `function` is the function object, if the pipeline was declared in Python.
    """

    file: str
    name: str
    parameters: tuple[str, ...] = field(default=(), compare=False)
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    place: Position | None = field(default=None, compare=False, repr=False)
    """The position where the pipeline names it."""
    defined: Position | None = field(default=None, compare=False, repr=False)
    """The position of its `def`."""
    optional: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The parameters that have a default."""

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


@dataclass(frozen=True)
class ClassRef(FunctionRef):
    """A user's Python class, named in the same way; `function` is the class object, if available."""


def option_text(value: object) -> object:
    """Spark options are strings: numbers and booleans are written the way Spark reads them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


OptionValue = Annotated[str | Secret, BeforeValidator(option_text)]


class ConnectorOptions(Declared):
    """The keys next to `connector:`; `options` is passed to Spark unchanged."""

    takes_options: ClassVar[bool] = True
    """Whether Spark uses `options`; if not, `options` is not a valid key."""

    options: dict[str, OptionValue] = Field(
        default_factory=dict, description="Other Spark options of the connector, passed to Spark unchanged."
    )

    def secrets(self) -> Iterator[tuple[tuple[str, ...], Secret]]:
        """Every secret among the keys, with the path to its key."""
        for key, value in self.options.items():
            if isinstance(value, Secret):
                yield ("options", key), value

    def hidden_options(self) -> frozenset[str]:
        """The names of Spark options that contain a secret and must not appear in a plan."""
        return frozenset(key for key, value in self.options.items() if isinstance(value, Secret))


class SourceOptions(ConnectorOptions):
    """Typed keys of a source."""


class SinkOptions(ConnectorOptions):
    """Typed keys of a sink."""


class Delivery(StrEnum):
    """What a sink does with a batch that Spark retries."""

    IDEMPOTENT = "a retried batch changes nothing"
    DUPLICATES = "a retried batch is written again"
    MARKED = "a retried batch is written again, with headers that let consumers drop the duplicates"
    UNCONFIRMED = "a row may be lost without an error, and a retried batch is written again"
    USER = "a retried batch is passed to your code again"


@dataclass(frozen=True)
class Method:
    """A method that a connector calls on objects of a user's class."""

    name: str
    passes: tuple[str, ...] = ()
    """The positional arguments it is called with."""
    required: bool = True


@dataclass(frozen=True)
class CleanUp:
    """What happens to processed input: archived to a directory, or deleted if there is none."""

    archive_dir: str | None

    @property
    def done(self) -> str:
        """The action as a participle, for a message."""
        return "archived" if self.archive_dir else "deleted"


@dataclass(frozen=True)
class Waiting:
    """The backlog that a first start finds, and how much of it one batch reads."""

    files: int
    bytes: int
    more: bool = False
    """Whether counting stopped before the end."""
    keys: tuple[str, ...] = ()
    """The keys that can limit a batch."""
    limit: str = ""
    """The key that limits it; empty if a batch reads everything."""
    at_most: int = 0
    """The number of files or bytes that it allows."""
    batches: int = 1
    """The number of batches needed."""


# Names that Spark, Flink, dbt and others use for the keys of a pipeline file. A user who writes one gets the
# key as a suggestion.
#
# Case and punctuation are ignored: `outputMode` also matches `output_mode`. A key that this part of the file
# does not have is a top-level key.


def _by_name(keys: Mapping[str, str]) -> dict[str, str]:
    return {name: key for key, names in keys.items() for name in names.split()}


_RUN_DIR = "checkpoint checkpoint_dir checkpoint_location"
_WATERMARK = {"watermark": "event_time event_time_column watermark_column watermark_delay with_watermark"}

OF_PIPELINES = _by_name(
    {
        "sources": "inputs streams",
        "tables": "models queries transformations transforms views",
        "sinks": "destinations outputs targets",
        "functions": "udfs",
        "spark": "conf config configuration spark_conf spark_config",
        "run_dir": f"{_RUN_DIR} storage",
        "timezone": "session_timezone",
        "watermark_policy": "multiple_watermark_policy",
        "jars": "libraries",
        "suppress": "ignore accept",
    }
)
OF_SOURCES = _by_name(
    {
        **_WATERMARK,
        "connector": "kind type",
        "bad_rows": "bad_records bad_records_path on_error",
        "refresh": "refresh_interval",
        "run_dir": "checkpoint_location",
    }
)
OF_TABLES = _by_name(
    {
        **_WATERMARK,
        "sql": "query select statement",
        "python": "code function",
        "deduplicate": "dedup drop_duplicates unique unique_key",
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
        "group": "sink_group",
        "run_dir": _RUN_DIR,
    }
)
OF_FUNCTIONS = _by_name({"python": "code function", "java_class": "class", "returns": "return_type"})
OF_WATERMARKS = _by_name(
    {"column": "event_time field timestamp", "delay": "delay_threshold lateness threshold"}
)
OF_EXPECTATIONS = _by_name({"condition": "check constraint expression", "on_violation": "action"})
