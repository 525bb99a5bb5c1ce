"""When a failed query is restarted: `restart: {attempts: 10, within: 10 minutes}` or `restart: never`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from headwater.spec.connector import Declared
from headwater.values import Duration

NEVER = "never"


class OnFailure(StrEnum):
    """What a run does when a query has failed for good."""

    CONTINUE = "continue"
    STOP = "stop"


class RestartPolicy(Declared):
    """How often, and after which delays, a query is restarted whose failure a retry can fix."""

    attempts: int = Field(
        default=10,
        ge=0,
        description="How often to restart within the period before the query fails for good.",
    )
    within: Duration = Field(
        default=Duration.parse("10 minutes"),
        description="The period in which `attempts` restarts are allowed.",
    )
    backoff: Duration = Field(
        default=Duration.parse("1 second"),
        description="The delay before the first restart. It doubles with each further one.",
    )
    max_backoff: Duration = Field(
        default=Duration.parse("1 minute"), description="The longest delay before a restart."
    )

    @model_validator(mode="after")
    def _ordered(self) -> RestartPolicy:
        if self.backoff > self.max_backoff:
            raise ValueError("`backoff` is longer than `max_backoff`")
        return self

    @classmethod
    def never(cls) -> RestartPolicy:
        """No restarts."""
        return cls(attempts=0)

    def delay(self, attempt: int, jitter: float) -> float:
        """The delay in seconds before an attempt, counted from 1; `jitter` is a random number from 0 to 1.

        Queries that failed together should not all restart together, so the delay is between half and all of
        the back-off.
        """
        longest: float = min(self.backoff.seconds * 2 ** min(attempt - 1, 30), self.max_backoff.seconds)
        return longest * (0.5 + jitter / 2)


def _restart(written: object) -> object:
    if written == NEVER:
        return RestartPolicy.never()
    if isinstance(written, str):
        raise ValueError("expected `never`, or an object such as `{attempts: 10, within: 10 minutes}`")
    return written


def _json_schema() -> dict[str, Any]:
    duration = {"type": "string", "examples": ["10 minutes"]}
    keys = {
        "attempts": {"type": "integer", "minimum": 0},
        **dict.fromkeys(("within", "backoff", "max_backoff"), duration),
    }
    return {
        "anyOf": [
            {"const": NEVER, "type": "string"},
            {"type": "object", "properties": keys, "additionalProperties": False},
        ]
    }


RestartField = Annotated[RestartPolicy | None, BeforeValidator(_restart), WithJsonSchema(_json_schema())]
"""`never` or the policy; None where the pipeline's policy applies."""
