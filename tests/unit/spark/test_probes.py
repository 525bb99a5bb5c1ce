"""The parts of Spark that Headwater needs: listed once each, and told when a Spark lacks them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.engine import prepare
from headwater.spark import probes
from headwater.spark.probes import GRACEFUL_STOP, PROBES, Probe, missing

METHODS = (
    "public abstract void a.Clock.waitTillTime(long)\npublic static a.B a.B.startQuery(x.Y,x.Z) throws q.E"
)
FIELDS = "private java.util.List a.Source.unreadFiles"


def spark_with(methods: str = "", fields: str = "") -> SparkSession:
    """A session whose JVM has one class, `a.B`."""

    def for_name(name: str, initialize: bool, loader: object) -> Any:
        if name != "a.B":
            raise Py4JJavaError.__new__(Py4JJavaError)
        return SimpleNamespace(
            getMethods=lambda: methods,
            getDeclaredMethods=lambda: "",
            getDeclaredConstructors=lambda: "public a.B(int,java.lang.String)",
            getDeclaredFields=lambda: fields,
        )

    current = SimpleNamespace(getContextClassLoader=lambda: None)
    lang = SimpleNamespace(
        Class=SimpleNamespace(forName=for_name), Thread=SimpleNamespace(currentThread=lambda: current)
    )
    wrap = SimpleNamespace(unsafeWrapArray=lambda text: SimpleNamespace(mkString=lambda between: text))
    scala = SimpleNamespace(collection=SimpleNamespace(immutable=SimpleNamespace(ArraySeq=wrap)))
    return cast(
        SparkSession, SimpleNamespace(_jvm=SimpleNamespace(java=SimpleNamespace(lang=lang), scala=scala))
    )


def lacks(*needs: str) -> tuple[str, ...]:
    return missing(spark_with(METHODS, FIELDS), Probe("one", "do it", "it is lost", needs))


def test_what_is_there() -> None:
    assert lacks("a.B", "a.B#waitTillTime/1", "a.B#startQuery/2", "a.B#new/2", "a.B#unreadFiles") == ()


@pytest.mark.parametrize("need", ["a.C", "a.C#x/0", "a.B#waitTillTime/2", "a.B#new/1", "a.B#seenFiles"])
def test_what_is_not_there(need: str) -> None:
    assert lacks("a.B", need) == (need,)


def test_one_of_several_members_is_enough() -> None:
    assert lacks("a.B#startQuery/2|startQuery/3") == ()
    assert lacks("a.B#startQuery/3|startQuery/4") == ("a.B#startQuery/3|startQuery/4",)


def test_parts_of_pyspark() -> None:
    assert lacks("pyspark.sql:DataFrameWriter.save") == ()
    wrong = ("pyspark.sql:DataFrameWriter.saves", "pyspark.sql:Writer.save", "pyspark.sequel:Writer.save")
    assert lacks(*wrong) == wrong


@pytest.mark.parametrize("lowered", [False, True])
def test_a_part_that_is_there_and_does_not_work(monkeypatch: pytest.MonkeyPatch, lowered: bool) -> None:
    """PySpark 4.2 and 4.3 write the schema of a state in lower case before they parse it."""

    class EvalConf:
        def __init__(self) -> None:
            self._conf: dict[str, str] = {}

        @property
        def state_value_schema(self) -> StructType:
            text = self._conf["state_value_schema"]
            return StructType.fromJson(json.loads(text.lower() if lowered else text))

    monkeypatch.setattr(probes, "import_module", lambda name: SimpleNamespace(EvalConf=EvalConf))
    need = "pyspark.worker:EvalConf.state_value_schema"
    assert lacks(need) == ((need,) if lowered else ())


def test_each_probe_says_what_it_is_for() -> None:
    assert len({probe.name for probe in PROBES}) == len(PROBES)
    assert all(probe.purpose and probe.lost and probe.needs for probe in PROBES)
    named = [need for probe in PROBES for need in probe.needs]
    assert len(set(named)) == len(named)


def test_a_stop_that_would_interrupt_is_a_warning() -> None:
    spark: Any = spark_with()
    spark.version = "4.9.0"
    (found,) = prepare.stop_findings(spark)
    assert (found.code, found.severity.value) == ("HW-SPARK-PART-MISSING", "warning")
    assert "Spark 4.9.0" in found.message
    assert GRACEFUL_STOP.lost in found.message


def test_the_doctor_names_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[bool] = []
    jvm = SimpleNamespace(context=None, stop=lambda: stopped.append(True))
    monkeypatch.setattr(prepare, "start_context", lambda settings, **given: jvm)
    monkeypatch.setattr(prepare, "find_java", lambda: None)
    monkeypatch.setattr(prepare, "SparkSession", lambda context: SimpleNamespace(version="4.9.0"))
    monkeypatch.setattr(prepare, "lacking", lambda spark: {"graceful stop": ("a.B#state/0",)})
    lost, rest = prepare.examine_spark()
    assert (lost.name, lost.status, lost.code) == (
        "spark part: graceful stop", "warning", "HW-SPARK-PART-MISSING"
    )  # fmt: skip
    assert lost.message.endswith("Not found: a.B#state/0.")
    count = len(probes.PROBES)
    says = f"Spark 4.9.0 has {count - 1} of {count} groups of internal APIs that Headwater needs"
    assert (rest.status, rest.message) == ("warning", says)
    assert stopped == [True]
