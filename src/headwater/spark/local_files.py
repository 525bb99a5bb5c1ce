"""Headwater's own jar: local files without child processes, and the choice of a source's files.

Without its native library, Hadoop starts a process (`chmod`) for each file that it creates, about 14 per small
batch. The classes in the jar (sources: `src/java`) do the same with Java's own calls and write the same files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

JAR = Path(__file__).with_name("headwater.jar")
CLASSES = {
    "spark.hadoop.fs.file.impl": "headwater.files.LocalFiles",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "headwater.files.LocalContext",
}
"""Spark's settings for the file systems behind local paths: Hadoop's older and its newer interface."""
_FILTER_KEY = "mapreduce.input.pathFilter.class"
_FILTER = "headwater.files.SourceFiles"
_CLASS_PATH = "SPARK_DIST_CLASSPATH"
_HADOOP_DEFAULTS = "core-default.xml"


def class_path(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variable that adds the jar to the class path of a new JVM, after everything else."""
    return {_CLASS_PATH: os.pathsep.join(filter(None, [environ.get(_CLASS_PATH), str(JAR)]))}


def use_local_files(conf: SparkConf, jvm: Any) -> None:
    """Use the classes for local paths, unless the user has set one of them; only before the context exists.

    Spark's start may already have opened local files with Hadoop's class, which Hadoop would return repeatedly.
    """
    if not has_jar(jvm):
        return
    hadoop = jvm.org.apache.hadoop.conf.Configuration()
    # One setting of the user switches both interfaces.
    if any(conf.contains(key) or _is_in_hadoop_files(hadoop, key) for key in CLASSES):
        return
    for key, name in CLASSES.items():
        conf.set(key, name)
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()


def _is_in_hadoop_files(hadoop: Any, key: str) -> bool:
    """Whether a file of the user, such as `core-site.xml`, contains the setting."""
    sources = hadoop.getPropertySources(key.removeprefix("spark.hadoop.")) or ()
    return any(source != _HADOOP_DEFAULTS for source in sources)


def has_jar(jvm: Any) -> bool:
    """Whether the JVM started with the jar: `spark-env.sh` of a SPARK_HOME may replace the class path."""
    # The answer is short: one of more than 8 KB, such as the class path, takes py4j 40 ms.
    found = jvm.java.lang.ClassLoader.getSystemResource(_FILTER.replace(".", "/") + ".class")
    return found is not None and unquote(str(found.getPath())).startswith(f"file:{JAR}!")


def install_file_filter(spark: SparkSession) -> None:
    """Let Spark ask about each file that it lists, if it runs in one JVM that has the jar and no other filter.

    Options of a source cannot name the class: Spark converts their names to lower case, Hadoop does not. A
    source without options for the class is read as before.
    """
    context: Any = spark.sparkContext
    given = spark.conf.get(_FILTER_KEY, None) or context._jsc.hadoopConfiguration().get(_FILTER_KEY)
    if not given and is_one_jvm(str(context.master)) and has_jar(spark._jvm):
        spark.conf.set(_FILTER_KEY, _FILTER)


def has_file_filter(spark: SparkSession) -> bool:
    """Whether a source may have options for the class."""
    return spark.conf.get(_FILTER_KEY, None) == _FILTER


def is_one_jvm(master: str) -> bool:
    """Whether driver and executor are the same process."""
    return master == "local" or master.startswith("local[")
