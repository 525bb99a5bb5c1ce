"""A folder of messages, one file for each partition of a batch."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import Row


class Outbox:
    """Writes a file beside its place and puts it there when it is whole."""

    def __init__(self) -> None:
        # This runs where the pipeline is started; the executors get a copy of what it sets.
        self.folder = Path(__file__).parent / "out" / "hot"
        self.stream: Any = None

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """A batch that comes again has the same number, so its file takes the place of the first one."""
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
