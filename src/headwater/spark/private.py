"""The ways from PySpark's objects into Spark's JVM that PySpark keeps to itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

JavaObject = Any
"""An object, a class or a package of the JVM; py4j looks its parts up when they are used."""


def jvm_of(spark: SparkSession) -> JavaObject:
    """`SparkSession._jvm`: the classes of Spark's JVM by their names."""
    return spark._jvm


def java_session(spark: SparkSession) -> JavaObject:
    """`SparkSession._jsparkSession`: the session of the JVM."""
    return spark._jsparkSession


def session_state(spark: SparkSession) -> JavaObject:
    """`SparkSession.sessionState`, private to Spark: the parser, the catalog, the optimizer, the settings."""
    return java_session(spark).sessionState()


def java_frame(frame: DataFrame) -> JavaObject:
    """`DataFrame._jdf`: the Dataset of the JVM."""
    return frame._jdf


def java_context(context: SparkContext) -> JavaObject:
    """`SparkContext._jsc`: the context of the JVM."""
    jsc: Any = context._jsc
    return jsc.sc()


def executor_cores(context: SparkContext) -> list[int]:
    """The cores of each executor that has registered (`SparkContext.statusStore`)."""
    listed = items_of(java_context(context).statusStore().executorList(True))
    return [int(each.totalCores()) for each in listed if each.id() != "driver"]


def time_setting(context: SparkContext, key: str, default: str) -> float:
    """A setting that is a time, in milliseconds (`SparkConf.getTimeAsMs`)."""
    return float(java_context(context).conf().getTimeAsMs(key, default))


def has_stopped(context: SparkContext) -> bool:
    """`SparkContext._jsc`, which PySpark removes when a context is stopped."""
    return context._jsc is None


def stopped_in_jvm(context: SparkContext) -> bool:
    """`SparkContext.isStopped`; Py4JError or OSError if the JVM has exited.

    Another thread of this process can stop the context at any time, so its Java half is read once.
    """
    jsc: Any = context._jsc
    return jsc is None or bool(jsc.sc().isStopped())


def is_same_session(one: SparkSession, other: SparkSession) -> bool:
    """Whether two objects of PySpark stand for one session of the JVM."""
    return bool(java_session(one).equals(java_session(other)))


def has_context() -> bool:
    """`SparkContext._active_spark_context`: whether this process has a Spark that runs."""
    return SparkContext._active_spark_context is not None


def has_jvm() -> bool:
    """`SparkContext._gateway`: whether this process has started a JVM."""
    return SparkContext._gateway is not None


def accept_calls(spark: SparkSession) -> None:
    """`SparkContext._gateway`: let the JVM call objects of Python that implement a Java interface."""
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]


def python_includes(context: SparkContext) -> tuple[str, ...]:
    """`SparkContext._python_includes`: the names of the modules that were sent to the executors."""
    return tuple(context._python_includes or ())


def kafka_classes(spark: SparkSession) -> JavaObject:
    """`org.apache.kafka`: the client that comes with Spark's Kafka connector."""
    return jvm_of(spark).org.apache.kafka


def java_library(spark: SparkSession) -> JavaObject:
    """The packages `java.…`."""
    return jvm_of(spark).java


def private_field(thing: JavaObject, name: str) -> JavaObject:
    """The value of a private field of an object's own class."""
    return private_member(thing, name).get(thing)


def private_member(thing: JavaObject, name: str) -> JavaObject:
    """A private field of an object's own class (`java.lang.reflect.Field`), to read it again and again."""
    field = thing.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def call_private(spark: SparkSession, thing: JavaObject, name: str, argument: JavaObject) -> JavaObject:
    """Call a private method that takes one argument, of exactly that argument's class."""
    gateway: Any = spark.sparkContext._gateway
    kinds, values = gateway.new_array(gateway.jvm.Class, 1), gateway.new_array(gateway.jvm.Object, 1)
    kinds[0], values[0] = argument.getClass(), argument
    method = thing.getClass().getDeclaredMethod(name, kinds)
    method.setAccessible(True)
    return method.invoke(thing, values)


def instance_of(spark: SparkSession, java_class: JavaObject) -> JavaObject:
    """A new object of a class, by its constructor without arguments."""
    gateway: Any = spark.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.java.lang.Class, 0)
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    return java_class.getDeclaredConstructor(none).newInstance(nothing)


def is_instance(spark: SparkSession, thing: JavaObject, kind: JavaObject) -> bool:
    """Whether an object is of a class that py4j has looked up."""
    return bool(jvm_of(spark).py4j.reflection.TypeUtil.isInstanceOf(kind._java_lang_class, thing))


def class_name(thing: JavaObject) -> str:
    """The name of an object's class, without its package."""
    return str(thing.getClass().getSimpleName())


def kind_of(node: JavaObject) -> str:
    """The name of the class of a node, which is a case class: one question where the class takes two."""
    return str(node.productPrefix())


def scala_object(package: JavaObject, name: str) -> JavaObject:
    """The one instance of a Scala object, such as a rule of the optimizer."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def items_of(sequence: JavaObject) -> list[JavaObject]:
    """The items of a Scala sequence."""
    return [sequence.apply(number) for number in range(sequence.size())]


def texts_of(spark: SparkSession, array: JavaObject) -> list[str]:
    """The items of a Java array as texts, in one call: a question for each of many would take long."""
    items = jvm_of(spark).scala.collection.immutable.ArraySeq.unsafeWrapArray(array)
    return [text for text in str(items.mkString("\n")).split("\n") if text]


def pairs_of(java: JavaObject) -> dict[str, str]:
    """A Scala map of texts; one of options has its keys in lower case."""
    return {str(pair._1()): str(pair._2()) for pair in items_of(java.toSeq())}


def scala_sequence(spark: SparkSession, values: Iterable[JavaObject]) -> JavaObject:
    """A Scala sequence of objects of the JVM."""
    new_list, as_scala = _lists(jvm_of(spark))
    found = new_list()
    for value in values:
        found.add(value)
    return as_scala(found).toIndexedSeq()


@cache
def _lists(jvm: JavaObject) -> tuple[JavaObject, JavaObject]:
    """Java's list, and how it becomes Scala's; looked up once, since py4j asks for each part of a name."""
    return jvm.java.util.ArrayList, jvm.scala.jdk.javaapi.CollectionConverters.asScala


def scala_map(spark: SparkSession, values: Mapping[str, str]) -> JavaObject:
    """A Scala map of texts."""
    return jvm_of(spark).org.apache.spark.api.python.PythonUtils.toScalaMap(dict(values))


def identity_of(spark: SparkSession) -> Callable[[JavaObject], int]:
    """The JVM's number for an object."""
    return _identity_in(jvm_of(spark))


@cache
def _identity_in(jvm: JavaObject) -> Callable[[JavaObject], int]:
    # Looked up once, since py4j asks for each part of a name.
    number = jvm.java.lang.System.identityHashCode
    return lambda thing: int(number(thing))


# Hadoop's file systems and codecs, in the JVM of a session and with its settings.


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
    """`IOUtils` of Apache Commons, which copies streams inside the JVM."""
    return jvm_of(spark).org.apache.commons.io.IOUtils


def _codec(spark: SparkSession, file: Path) -> JavaObject | None:
    """The codec that the name tells, None if it tells none."""
    hadoop = jvm_of(spark).org.apache.hadoop
    codecs = hadoop.io.compress.CompressionCodecFactory(session_state(spark).newHadoopConf())
    return codecs.getCodec(hadoop.fs.Path(file.name))
