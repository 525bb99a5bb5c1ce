"""Share prices from a simulated exchange, as a Python data source."""

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
    """Prices as a stream: the offset is the number of the next step."""

    def __init__(self, last: int) -> None:
        self.last = last

    def initialOffset(self) -> dict[str, int]:
        return {"step": 0}

    def latestOffset(self) -> dict[str, int]:
        return {"step": self.last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One partition per share; an executor reads each of them."""
        return [InputPartition((share, start["step"], end["step"])) for share in SHARES]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Always returns the same rows for a partition, because Spark retries batches."""
        share, start, end = partition.value
        for step in range(start, end):
            yield step, share, price_at(share, step)


class AllPrices(DataSourceReader):
    """All prices, for `static: true` and batch runs."""

    def __init__(self, last: int) -> None:
        self.last = last

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(share) for share in SHARES]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        for step in range(self.last):
            yield step, partition.value, price_at(partition.value, step)
