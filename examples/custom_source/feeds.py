"""Share prices from a made-up exchange, as a source of Spark's Python Data Source API."""

from collections.abc import Iterator

from exchange import SHARES, price_at
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

Row = tuple[int, str, int]


class Tickers(DataSource):
    """The price of every share at every step, up to the step in the option `last`."""

    def schema(self) -> str:
        return "step int, share string, price int"

    def streamReader(self, schema: StructType) -> "StreamedPrices":
        return StreamedPrices(int(self.options["last"]))

    def reader(self, schema: StructType) -> "AllPrices":
        return AllPrices(int(self.options["last"]))


class StreamedPrices(DataSourceStreamReader):
    """Prices as a stream: an offset is the step up to which was read."""

    def __init__(self, last: int) -> None:
        self.last = last

    def initialOffset(self) -> dict[str, int]:
        return {"step": 0}

    def latestOffset(self) -> dict[str, int]:
        return {"step": self.last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One for each share; each is read on an executor."""
        return [InputPartition((share, start["step"], end["step"])) for share in SHARES]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """The same rows for the same partition, whenever it is read: a repeated batch relies on that."""
        share, start, end = partition.value
        for step in range(start, end):
            yield step, share, price_at(share, step)


class AllPrices(DataSourceReader):
    """All prices at once, for `static: true` and for batch runs."""

    def __init__(self, last: int) -> None:
        self.last = last

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(share) for share in SHARES]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        for step in range(self.last):
            yield step, partition.value, price_at(partition.value, step)
