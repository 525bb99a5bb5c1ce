"""Spark's settings for a pipeline: good choices at the first start, kept from then on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.checkpoint import STATE_FORMAT
from headwater.spec import PipelineSpec, WatermarkPolicy

PARTITIONS = "spark.sql.shuffle.partitions"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
TIMEZONE = "spark.sql.session.timeZone"
MASTER = "spark.master"
SPARK_UI = "spark.ui.enabled"

STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    STATE_FORMAT: "2",
}
"""How state is kept. RocksDB with a changelog writes only changes; format 2 lets a checkpoint be rewound."""

FROZEN = (PARTITIONS, *STATE)
"""What a checkpoint keeps from its first start: Spark freezes some of it, the rest must not change either."""

COUNTED = {
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
}
"""Filters stay out of the parser: a row that it skips is not counted as read, and not seen to be broken."""

FASTER_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?$")


@dataclass(frozen=True)
class Setting:
    """One setting of a query, and who chose it."""

    key: str
    value: str
    origin: str
    """`chosen` by Headwater, `set` by the user, or `kept` from the first start."""
    passed_over: str | None = None
    """What the user sets now, where the first start decided otherwise."""


def given_settings(
    spec: PipelineSpec, conf: Mapping[str, str], *, master: str | None, spark_ui: bool
) -> dict[str, str]:
    """What the user sets: in the file, above it by `--conf`, and above both by an option of its own."""
    options = {MASTER: master} if master else {}
    if spark_ui:
        options[SPARK_UI] = "true"
    return {**spec.spark, **conf, **options}


def cores_of(master: str, settings: Mapping[str, str], machine_cores: int, running_cores: int) -> int:
    """The cores that the configured cluster will have, not those that happen to be there at start."""
    local = _LOCAL.match(master)
    if local:
        return machine_cores if local[1] == "*" else int(local[1] or 1)
    if "spark.cores.max" in settings:
        return int(settings["spark.cores.max"])
    if "spark.executor.instances" in settings:
        return int(settings["spark.executor.instances"]) * int(settings.get("spark.executor.cores", "1"))
    return running_cores


def query_settings(
    spec: PipelineSpec, given: Mapping[str, str], cores: int, kept: Mapping[str, str]
) -> tuple[Setting, ...]:
    """The settings under which one query runs: kept from its first start, set by the user, or chosen."""
    chosen = {PARTITIONS: str(max(1, cores)), **STATE}
    settings = [_setting(key, chosen[key], given, kept) for key in FROZEN]
    settings.append(Setting(TIMEZONE, spec.timezone, "set" if spec.timezone != "UTC" else "chosen"))
    policy = "max" if spec.watermark_policy is WatermarkPolicy.FASTEST else "min"
    settings.append(Setting("spark.sql.streaming.multipleWatermarkPolicy", policy, "chosen"))
    # It checks and then renames, which is safe only while one process writes: our lock sees to that.
    settings.append(_setting(FILE_MANAGER, FASTER_FILE_MANAGER, given, {}))
    settings += [_setting(key, value, given, {}) for key, value in COUNTED.items()]
    named = {setting.key for setting in settings}
    settings += [Setting(key, value, "set") for key, value in sorted(given.items()) if key not in named]
    return tuple(settings)


def _setting(key: str, chosen: str, given: Mapping[str, str], kept: Mapping[str, str]) -> Setting:
    if key in kept:
        wanted = given.get(key)
        return Setting(key, kept[key], "kept", wanted if wanted != kept[key] else None)
    if key in given:
        return Setting(key, given[key], "set")
    return Setting(key, chosen, "chosen")
