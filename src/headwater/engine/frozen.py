"""The settings that Spark freezes in a checkpoint, in the form in which it writes them down."""

from __future__ import annotations

import json
import time
from typing import Any

from headwater.engine.session import PipelineSession
from headwater.engine.settings import Setting


def settings_line(session: PipelineSession, settings: tuple[Setting, ...]) -> str:
    """The line of a batch in `offsets/N` before any watermark was reached, as Spark itself writes it."""
    session.apply(settings)
    jvm: Any = session.spark._jvm
    written = getattr(jvm.org.apache.spark.sql.execution.streaming.checkpointing, "OffsetSeqMetadata$")
    now, conf = int(time.time() * 1000), session.spark._jsparkSession.conf()
    line = json.loads(str(getattr(written, "MODULE$").apply(0, now, conf).json()))
    # What Spark sets only inside of a query has no value yet; it comes from the session under the same name.
    frozen = line["conf"].items()
    line["conf"] = {key: value or session.spark.conf.get(key) for key, value in frozen}
    return json.dumps(line, separators=(",", ":"))
