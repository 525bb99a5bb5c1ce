"""Functions for SQL: on one value, on a pandas series, on an Arrow array."""

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import arrow_udf, pandas_udf


def domain(sender):
    return sender.rpartition("@")[2].lower() if sender else None


@pandas_udf("string")
def title(text: pd.Series) -> pd.Series:
    return text.str.title()


@arrow_udf("int")
def letters(text: pa.Array) -> pa.Array:
    return pc.utf8_length(text)
