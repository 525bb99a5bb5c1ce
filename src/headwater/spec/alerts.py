"""The alerts of a pipeline: which rules apply, and their thresholds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from headwater.spec.connector import Declared
from headwater.values import Duration

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%?")
_BYTES = re.compile(r"([0-9]+)\s*([KMGT]?)B", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _percent(written: object) -> object:
    match = _PERCENT.fullmatch(written.strip()) if isinstance(written, str) else None
    if match:
        return float(match[1])
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise ValueError("expected a percentage; write a number such as `5 %`")
    return written


Percent = Annotated[
    float,
    BeforeValidator(_percent),
    Field(gt=0, allow_inf_nan=False),
    PlainSerializer(lambda percent: f"{percent:g} %"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%?\s*$"},
            ],
            "examples": ["5 %"],
        }
    ),
]
"""A percentage: `5 %`, or the number 5."""


def _not_zero(duration: Duration) -> Duration:
    if not duration.milliseconds:
        raise ValueError("the duration is zero; write `off` instead of thresholds to turn the alert off")
    return duration


Period = Annotated[Duration, AfterValidator(_not_zero)]


@dataclass(frozen=True)
class FreeSpace:
    """A part of a disk, in percent or in bytes."""

    percent: float = 0.0
    bytes: int = 0

    def __str__(self) -> str:
        if not self.bytes:
            return f"{self.percent:g} %"
        unit = next(unit for unit in ("T", "G", "M", "K", "") if not self.bytes % _UNITS[unit])
        return f"{self.bytes // _UNITS[unit]} {unit}B"

    def of(self, total: int) -> float:
        """The bytes of a disk of this size."""
        return self.bytes or total * self.percent / 100

    @classmethod
    def parse(cls, written: object) -> FreeSpace:
        """Parse `10 %`, the number 10 or `5 GB`; raises ValueError with the accepted forms."""
        if isinstance(written, FreeSpace):
            return written
        size = _BYTES.fullmatch(written.strip()) if isinstance(written, str) else None
        share = _PERCENT.fullmatch(str(written).strip()) if not isinstance(written, bool) else None
        found = cls(bytes=int(size[1]) * _UNITS[size[2].upper()]) if size else None
        found = found or (cls(percent=float(share[1])) if share else None)
        if found is None or not (found.bytes or 0 < found.percent < 100):
            raise ValueError(
                "expected free space; write a percentage such as `10 %` or a size such as `5 GB`"
            )
        return found


FreeSpaceField = Annotated[
    FreeSpace,
    PlainValidator(FreeSpace.parse),
    PlainSerializer(str),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}], "examples": ["10 %", "5 GB"]}),
]


class _OrOff:
    """Accepts `off` or `false` for a rule that must not apply; its value is then None."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_off, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        node = handler(schema)
        members = [each for each in node["anyOf"] if each != {"type": "null"}]
        return {**node, "anyOf": [*members, {"enum": ["off", False]}]}


def _off(written: object) -> object:
    if written is False or written == "off":
        return None
    if written is None or isinstance(written, str | bool | int | float):
        raise ValueError(
            "expected the thresholds of the alert; write `off`, or keys such as `warning` and `critical`"
        )
    return written


class AlertKeys(Declared):
    """The thresholds of one alert."""

    falls: ClassVar[bool] = False
    """Whether a lower value is worse."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        warning, critical = getattr(self, "warning", None), getattr(self, "critical", None)
        if warning is None or critical is None:
            return self
        fields = type(self).model_dump(self, mode="json", include={"warning", "critical"})
        shown = f"`critical` ({fields['critical']}) "
        low, high = (critical, warning) if self.falls else (warning, critical)
        if isinstance(low, FreeSpace) and isinstance(high, FreeSpace):
            # A percentage and a size are comparable only on a known disk.
            wrong = low.of(0) > high.of(0) if low.bytes and high.bytes else low.percent > high.percent > 0
        else:
            wrong = low > high
        if wrong:
            side = "above" if self.falls else "below"
            both = {"warning", "critical"} <= self.model_fields_set
            remedy = "swap them" if both else "set both"
            raise ValueError(f"{shown}is {side} `warning` ({fields['warning']}); {remedy}")
        return self


class FallingBehindAlert(AlertKeys):
    """Rows arrive faster than the query processes them: its batches, lag or backlog of files grow."""

    warning: Percent = Field(default=10.0, description="How much faster rows arrive than they are processed.")
    critical: Percent = Field(default=50.0, description="The same, for a critical alert.")
    period: Period = Field(
        default=Duration(600_000), alias="for", description="The period over which this must be true."
    )


class StuckWatermarkAlert(AlertKeys):
    """The watermark does not advance, although rows arrive."""

    warning: Period = Field(
        default=Duration(600_000), description="How long the watermark is the same while rows arrive."
    )
    critical: Period = Field(default=Duration(3_600_000), description="The same, for a critical alert.")


class FutureTimestampAlert(AlertKeys):
    """A row has an event time far in the future, and advanced the watermark with it."""

    warning: Period = Field(
        default=Duration(3_600_000),
        description="How far an event time or the watermark is ahead of the clock.",
    )
    critical: Period = Field(default=Duration(86_400_000), description="The same, for a critical alert.")


class GrowingStateAlert(AlertKeys):
    """The state of an operator grows steadily and does not shrink."""

    warning: Percent = Field(default=20.0, description="How much the number of rows in state grows.")
    critical: Percent = Field(default=200.0, description="The same, for a critical alert.")
    period: Period = Field(
        default=Duration(86_400_000),
        alias="for",
        description="The period over which this must be true.",
    )
    min_rows: int = Field(default=100_000, gt=0, description="A smaller state causes no alert.")


class SlowBatchesAlert(AlertKeys):
    """Batches take almost as long as the trigger interval, or longer."""

    warning: Percent = Field(
        default=80.0, description="The average duration of the last batches, in percent of the interval."
    )
    critical: Percent = Field(default=100.0, description="The same, for a critical alert.")


class LateRowsAlert(AlertKeys):
    """Rows arrive behind the watermark, and a stateful operator drops them."""

    warning: Percent = Field(default=1.0, description="The share of late rows in all rows of the query.")
    critical: Percent = Field(default=10.0, description="The same, for a critical alert.")
    period: Period = Field(default=Duration(900_000), alias="for", description="The period that is counted.")
    min_rows: int = Field(default=100, gt=0, description="Fewer rows in this period cause no alert.")


class BadRowsAlert(AlertKeys):
    """Rows of a source do not match its schema."""

    warning: Percent = Field(default=1.0, description="The share of bad rows in all rows of the source.")
    critical: Percent = Field(default=10.0, description="The same, for a critical alert.")
    period: Period = Field(default=Duration(900_000), alias="for", description="The period that is counted.")
    min_rows: int = Field(default=100, gt=0, description="Fewer rows in this period cause no alert.")


class RepeatedRestartsAlert(AlertKeys):
    """A query fails and is restarted again and again."""

    warning: int = Field(default=3, gt=0, description="The number of restarts after a failure.")
    critical: int = Field(default=5, gt=0, le=1000, description="The same, for a critical alert.")
    within: Period = Field(default=Duration(3_600_000), description="The period that is counted.")


class IdleSourceAlert(AlertKeys):
    """A source has delivered no rows for longer than usual."""

    warning: Period = Field(
        default=Duration(3_600_000), description="The shortest time without rows that causes an alert."
    )
    times_usual: float = Field(
        default=3.0,
        ge=1,
        description="How many times as long as the longest pause of the last seven days it must be.",
    )


class DiskAlmostFullAlert(AlertKeys):
    """The disk of a local checkpoint is almost full."""

    falls = True

    warning: FreeSpaceField = Field(
        default=FreeSpace(percent=10.0),
        description="The free space, as a percentage or a size such as `5 GB`.",
    )
    critical: FreeSpaceField = Field(
        default=FreeSpace(percent=3.0), description="The same, for a critical alert."
    )


class Alerts(Declared):
    """The alerts of the pipeline. Each key is `off`, or an object with thresholds that differ from the defaults."""

    also_called = {
        "backlog": "falling_behind",
        "lag": "falling_behind",
        "consumerlag": "falling_behind",
        "watermark": "stuck_watermark",
        "state": "growing_state",
        "batchduration": "slow_batches",
        "quarantine": "bad_rows",
        "restarts": "repeated_restarts",
        "idle": "idle_source",
        "disk": "disk_almost_full",
    }

    falling_behind: Annotated[FallingBehindAlert | None, _OrOff()] = Field(
        default_factory=FallingBehindAlert, description="Rows arrive faster than the query processes them."
    )
    stuck_watermark: Annotated[StuckWatermarkAlert | None, _OrOff()] = Field(
        default_factory=StuckWatermarkAlert,
        description="The watermark does not advance, although rows arrive.",
    )
    future_timestamp: Annotated[FutureTimestampAlert | None, _OrOff()] = Field(
        default_factory=FutureTimestampAlert, description="An event time is far ahead of the clock."
    )
    growing_state: Annotated[GrowingStateAlert | None, _OrOff()] = Field(
        default_factory=GrowingStateAlert, description="The state of an operator grows steadily."
    )
    slow_batches: Annotated[SlowBatchesAlert | None, _OrOff()] = Field(
        default_factory=SlowBatchesAlert, description="Batches take almost as long as the trigger interval."
    )
    late_rows: Annotated[LateRowsAlert | None, _OrOff()] = Field(
        default_factory=LateRowsAlert, description="Rows are dropped behind the watermark."
    )
    bad_rows: Annotated[BadRowsAlert | None, _OrOff()] = Field(
        default_factory=BadRowsAlert, description="Rows of a source do not match its schema."
    )
    repeated_restarts: Annotated[RepeatedRestartsAlert | None, _OrOff()] = Field(
        default_factory=RepeatedRestartsAlert, description="The query fails and is restarted repeatedly."
    )
    idle_source: Annotated[IdleSourceAlert | None, _OrOff()] = Field(
        default_factory=IdleSourceAlert, description="A source has delivered no rows for longer than usual."
    )
    disk_almost_full: Annotated[DiskAlmostFullAlert | None, _OrOff()] = Field(
        default_factory=DiskAlmostFullAlert, description="The disk of a local checkpoint is almost full."
    )
