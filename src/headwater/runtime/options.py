"""How to run a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.runtime.supervisor import STOP_SECONDS


@dataclass(frozen=True)
class RunOptions:
    """How to run; nothing here changes what the pipeline means."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    fail_fast: bool = False
    until_idle: bool = False
    spark_ui: bool = False
    stop_seconds: float = STOP_SECONDS
