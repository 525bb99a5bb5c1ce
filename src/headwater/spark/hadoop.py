"""Hadoop's file systems and codecs, in the JVM of a session and with its settings."""

from __future__ import annotations

from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.spark.private import JavaObject, jvm_of, session_state


def file_system(spark: SparkSession, path: str, *below: str) -> tuple[JavaObject, JavaObject]:
    """Hadoop's file system of a path, and the path as it has it (`sessionState.newHadoopConf`)."""
    found = jvm_of(spark).org.apache.hadoop.fs.Path(path, *below)
    return found.getFileSystem(session_state(spark).newHadoopConf()), found


def default_file_system(context: SparkContext) -> str:
    """The address of the file system of paths that name none (`fs.defaultFS`)."""
    jsc: JavaObject = context._jsc
    return str(jsc.hadoopConfiguration().get("fs.defaultFS"))


def unpacked(spark: SparkSession, file: Path) -> JavaObject:
    """A stream of what a file holds, unpacked if its name tells a codec."""
    source, codec = jvm_of(spark).java.io.FileInputStream(str(file)), _codec(spark, file)
    return codec.createInputStream(source) if codec is not None else source


def packed(spark: SparkSession, file: Path) -> JavaObject:
    """A stream into a file, which packs if the file's name tells a codec."""
    out, codec = jvm_of(spark).java.io.FileOutputStream(str(file)), _codec(spark, file)
    return codec.createOutputStream(out) if codec is not None else out


def byte_streams(spark: SparkSession) -> JavaObject:
    """`IOUtils` of Apache Commons, which copies streams inside of the JVM."""
    return jvm_of(spark).org.apache.commons.io.IOUtils


def _codec(spark: SparkSession, file: Path) -> JavaObject | None:
    """The codec that the name tells, None if it tells none."""
    hadoop = jvm_of(spark).org.apache.hadoop
    codecs = hadoop.io.compress.CompressionCodecFactory(session_state(spark).newHadoopConf())
    return codecs.getCodec(hadoop.fs.Path(file.name))
