"""Tables that process chunks of a batch and return any number of rows."""

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame


def masked(tickets: DataFrame) -> DataFrame:
    return tickets.select("id", "text").mapInPandas(without_numbers, "id int, text string")


def without_numbers(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        yield part.assign(text=part["text"].str.replace(r"\d", "*", regex=True)).dropna()


def reminders(urgent: DataFrame) -> DataFrame:
    return urgent.select("id").mapInArrow(first_and_second, "id int, reminder int")


def first_and_second(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        for number in (1, 2):
            reminder = pa.array([number] * part.num_rows, pa.int32())
            yield pa.RecordBatch.from_arrays([part.column("id"), reminder], ["id", "reminder"])
