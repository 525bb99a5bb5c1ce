"""A project's modules in the Python workers of this process; on a real cluster: test_cluster.py."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.engine.project_code import ProjectCode

# PySpark leaves the sockets that results come through to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

PROJECT = {
    "lib/__init__.py": "",
    "lib/rules.py": "LIMIT = 2\ndef over(x): return x > LIMIT\n",
    "lib/lazy.py": "NAME = 'first'\n",
    "alerts.py": """\
        import sys

        import pandas as pd
        from pyspark.sql import DataFrame
        from pyspark.sql.functions import pandas_udf, udf

        import lib.rules

        @udf("boolean")
        def over(x):
            return lib.rules.over(x)

        @pandas_udf("long")
        def above(x: pd.Series) -> pd.Series:
            from lib.rules import LIMIT
            return x - LIMIT

        def scalar(numbers: DataFrame) -> DataFrame:
            return numbers.select("id", over("id").alias("over"))

        def nested(numbers: DataFrame) -> DataFrame:
            def name(x):
                from lib.lazy import NAME
                import lib.rules
                return NAME if lib.rules.over(x) else None
            limit = udf(lambda x: __import__("sys").modules[lib.rules.over.__module__].LIMIT, "long")
            return numbers.select("id", udf(name, "string")("id").alias("name"), limit("id").alias("limit"))

        def arrow(numbers: DataFrame) -> DataFrame:
            return numbers.select("id", above("id").alias("above"))

        def frames(numbers: DataFrame) -> DataFrame:
            def kept(batches):
                from lib import rules
                for batch in batches:
                    yield batch[rules.over(batch["id"])]
            return numbers.mapInPandas(kept, "id long")
        """,
    "pipeline.py": """\
        import sys
        import headwater.errors as hw
        from pyspark.sql.functions import udf
        from lib import rules

        TREE = hw.HeadwaterError

        @udf("string")
        def told(x):
            from lib.rules import LIMIT
            return f"{rules.over(x)} {LIMIT} {'headwater' in sys.modules}"

        def by_value(numbers):
            return numbers.select("id", told("id").alias("told"))
        """,
}

EXPECTED: dict[str, list[list[Any]]] = {
    "scalar": [[0, False], [1, False], [2, False], [3, True]],
    "nested": [[0, None, 2], [1, None, 2], [2, None, 2], [3, "first", 2]],
    "arrow": [[0, -2], [1, -1], [2, 0], [3, 1]],
    "frames": [[3]],
    "by_value": [[0, "False 2 False"], [1, "False 2 False"], [2, "False 2 False"], [3, "True 2 False"]],
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return root


def rows(frame: DataFrame) -> list[list[Any]]:
    return sorted([list(row) for row in frame.collect()], key=str)


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 4, numPartitions=2)


class TestLocal:
    """One process, many projects: the workers are reused between them."""

    @pytest.mark.feature("C1.3", part="every kind of Python function, on a local master")
    @pytest.mark.parametrize("function", ["scalar", "nested", "arrow", "frames"])
    def test_functions_import_the_projects_modules(
        self, tmp_path: Path, spark: SparkSession, numbers: DataFrame, function: str
    ) -> None:
        root = write(tmp_path, PROJECT)
        code = ProjectCode.of(root, [root / "alerts.py"])
        code.ship(spark.sparkContext)
        assert rows(code.function(root / "alerts.py", function)(numbers)) == EXPECTED[function]

    @pytest.mark.feature("C1.3", part="functions of the declaring file need no Headwater on the executors")
    def test_functions_of_the_declaring_file_are_sent_whole(
        self, tmp_path: Path, spark: SparkSession, numbers: DataFrame
    ) -> None:
        root = write(tmp_path, PROJECT)
        code = ProjectCode.of(root, [root / "pipeline.py"])
        code.load(root / "pipeline.py", by_value=True)
        code.ship(spark.sparkContext)
        assert rows(code.function(root / "pipeline.py", "by_value")(numbers)) == EXPECTED["by_value"]

    @pytest.mark.feature("C1.3", part="two projects with a module of one name in one process")
    def test_two_projects_and_a_changed_file(self, tmp_path: Path, spark: SparkSession) -> None:
        def names(root: Path) -> list[list[Any]]:
            code = ProjectCode.of(root, [root / "alerts.py"])
            code.ship(spark.sparkContext)
            session = spark.newSession()
            table = session.range(0, 4, numPartitions=2)
            return rows(code.function(root / "alerts.py", "nested")(table).select("name").na.drop())

        one, two = (write(tmp_path / name, PROJECT) for name in ("one", "two"))
        write(two, {"lib/lazy.py": "NAME = 'second'\n"})
        assert [names(one), names(two), names(one)] == [[["first"]], [["second"]], [["first"]]]
        write(one, {"lib/lazy.py": "NAME = 'changed'\n"})
        assert [names(one), names(two)] == [[["changed"]], [["second"]]]

    def test_an_error_on_a_worker_shows_the_users_file_and_line(
        self, tmp_path: Path, spark: SparkSession, numbers: DataFrame
    ) -> None:
        root = write(tmp_path, PROJECT)
        write(root, {"lib/rules.py": "\n\ndef over(x):\n    return x > missing\n"})
        code = ProjectCode.of(root, [root / "alerts.py"])
        code.ship(spark.sparkContext)
        with pytest.raises(Exception, match="missing") as error:
            code.function(root / "alerts.py", "scalar")(numbers).collect()
        assert f'File "{root / "lib/rules.py"}", line 4, in over' in str(error.value)
