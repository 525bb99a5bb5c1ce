"""Spark's private API is reached for in one package: `headwater.spark`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "headwater"
FILES = sorted(file for file in SOURCE.rglob("*.py") if "spark" not in file.relative_to(SOURCE).parts[:1])
OF_PYSPARK = frozenset(
    {
        "_active_spark_context", "_activeSession", "_gateway", "_instantiatedSession", "_java_lang_class",
        "_jdf", "_jo", "_jrdd", "_jreader", "_jsc", "_jsparkSession", "_jsq", "_jsqm", "_jvm", "_jwrite",
        "_python_includes", "_sc", "_sparkSession", "_stateful_processor",
    }
)  # fmt: skip
"""Private names of PySpark; a class of ours may have none of them either."""
OF_WRITERS = frozenset({"_df", "_spark"})
"""Private names of PySpark's writers, which are common enough to be ours."""
REFLECTION = frozenset(
    {
        "getDeclaredConstructor", "getDeclaredField", "getDeclaredFields", "getDeclaredMethod",
        "getDeclaredMethods", "setAccessible",
    }
)  # fmt: skip
CLASS_PATH = re.compile(r"org\.apache\.spark(\.\w+)*\.[A-Z]\w*")


def private_names(text: str) -> Iterator[str]:
    """What a module reaches for, with the line."""
    tree = ast.parse(text)
    patches = any(
        isinstance(node, ast.Import | ast.ImportFrom) and "pyspark" in ast.unparse(node)
        for node in ast.walk(tree)
    )
    for node in ast.walk(tree):
        found = _reached(node, patches=patches)
        if found:
            yield f"line {getattr(node, 'lineno', 0)}: {found}"


def _reached(node: ast.AST, *, patches: bool) -> str | None:
    match node:
        case ast.Attribute(attr=name) if name in OF_PYSPARK | REFLECTION:
            return name
        case ast.Attribute(value=owner, attr=name) if name in OF_WRITERS and ast.unparse(owner) != "self":
            return name
        case (
            ast.Attribute(value=ast.Attribute(attr="org"), attr="apache")
            | ast.Attribute(value=ast.Name(id="org"), attr="apache")
        ):
            return "org.apache"
        case ast.keyword(arg=str(name)) if name in OF_PYSPARK:
            return name
        case ast.Constant(value=str(name)) if name in OF_PYSPARK | REFLECTION or CLASS_PATH.fullmatch(name):
            return name
        case ast.Constant(value=str(name)) if name == "MODULE$":
            return name
        case ast.Call(func=ast.Name(id="setattr")) if patches:
            return "setattr"
        case ast.ClassDef(name="Java", body=body) if any("implements" in ast.unparse(part) for part in body):
            return "a Java interface"
        case ast.ImportFrom(module="pyspark.java_gateway" | "py4j.java_gateway" | "pyspark.sql.pandas.types"):
            return str(node.module)
    return None


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(SOURCE).as_posix())
def test_private_api_is_used_in_the_spark_package_alone(file: Path) -> None:
    assert list(private_names(file.read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "spark._jvm",
        "spark._jvm.org.apache.spark.sql.Encoders",
        "frame._jdf.queryExecution()",
        "writer._df",
        "SparkConf(_jvm=gateway)",
        "getattr(spark, '_jsparkSession')",
        "thing.getClass().getDeclaredField('source')",
        "jvm.java.lang.Class.forName('org.apache.spark.util.Utils')",
        "getattr(found, 'MODULE$')",
        "from pyspark import RDD\nsetattr(RDD, 'count', None)",
        "class Index:\n    class Java:\n        implements = ['x.FileIndex']",
        "from pyspark.java_gateway import launch_gateway",
        "from pyspark.sql.pandas.types import to_arrow_schema",
    ],
)
def test_each_way_around_is_seen(text: str) -> None:
    assert list(private_names(text))


def test_other_uses_of_such_names_are_free() -> None:
    text = "self._spark\nself._df\nsetattr(thing, 'name', 1)\n'org.apache.spark:spark-avro_2.13:4.1.2'"
    assert list(private_names(text)) == []
