"""What is found of a file before Spark reads it through."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.connectors.files.bad_rows import BINARY
from headwater.connectors.files.opener import FileOpener


@pytest.mark.parametrize("format", BINARY)
def test_a_file_without_bytes_is_wrong_although_spark_would_pass_over_it(format: str, tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.touch()
    opened = FileOpener(cast(SparkSession, None), "s", format, StructType(), {})
    assert opened([str(file)]) == {str(file): "file is empty"}
