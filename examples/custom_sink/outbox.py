"""A directory of messages, one file per partition of a batch."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import Row


class Outbox:
    """Writes to a temporary file, and renames it when it is complete."""

    def __init__(self) -> None:
        # This runs in the process that starts the pipeline; the executors receive a copy of its attributes.
        self.folder = Path(__file__).parent / "out" / "hot"
        self.stream: Any = None

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """A retried batch has the same number, so its file replaces the first one."""
        self.file = self.folder / f"{epoch_id}-{partition_id}.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stream = self.file.with_suffix(".part").open("w", encoding="utf-8")
        return True

    def process(self, row: Row) -> None:
        self.stream.write(json.dumps(row.asDict()) + "\n")

    def close(self, error: BaseException | None) -> None:
        self.stream.close()
        part = self.file.with_suffix(".part")
        if error is None:
            part.replace(self.file)
        else:
            part.unlink()
