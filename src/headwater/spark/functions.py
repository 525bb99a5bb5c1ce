"""SQL functions from Headwater's jar.

One call reads a message once, where Spark's own functions read it several times.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from headwater.spark.local_files import has_jar, is_one_jvm
from headwater.spark.private import java_session, jvm_of

_ONE_OBJECT = "__hw_is_one_object"


def is_one_object(spark: SparkSession) -> str | None:
    """The name of the function that tells whether bytes are one JSON object, with nothing after it.

    None if the executors do not have the jar.
    """
    jvm = jvm_of(spark)
    if not is_one_jvm(str(spark.sparkContext.master)) or not has_jar(jvm):
        return None
    boolean = jvm.org.apache.spark.sql.types.DataTypes.BooleanType
    java_session(spark).udf().register(_ONE_OBJECT, jvm.headwater.rows.OneJsonObject(), boolean)
    return _ONE_OBJECT
