"""Calls that need all rows at once, made on a stream by the function of a Python table."""

from __future__ import annotations

import traceback
from pathlib import Path

from headwater.engine.spark_errors import condition_of
from headwater.values.user_lines import is_users

_SAYS = (
    "Queries with streaming sources must be executed with writeStream",
    "pandas-on-Spark does not support Structured Streaming",
    "pivot is not supported on a streaming",
)
_CONDITION = "CALL_ON_STREAMING_DATASET_UNSUPPORTED"
PIVOT = "`pivot()`"
"""Without values: Spark would look for them in all rows."""
_ATTRIBUTES = ("rdd", "write")
"""What is no call by itself."""


def action_of(error: Exception, root: Path) -> str | None:
    """The call that a stream does not take, as the user wrote it: `count()`; None for any other error."""
    if condition_of(error) != _CONDITION and not any(each in str(error) for each in _SAYS):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    last = max((place for place, each in enumerate(frames) if is_users(each.filename, root)), default=-1)
    below = [each.name for each in frames[last + 1 :] if not each.name.startswith(("_", "<"))]
    if last < 0 or not below:
        return "an action"
    return f"`{below[0]}`" if below[0] in _ATTRIBUTES else f"`{below[0]}()`"
