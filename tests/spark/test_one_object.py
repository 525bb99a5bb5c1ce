"""The function that finds the end of a JSON object: never true where something follows, and no change to any row."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.decoding import decode
from headwater.connectors.decoding.decode import decoded
from headwater.spark.functions import jar_functions
from tests.json_values import BAD_JSON, COLUMNS, GOOD_JSON
from tests.spark.test_decoding import context, messages, options

KNOWN = [*(text for text, _ in GOOD_JSON), *(text for text, *_ in BAD_JSON)]
PIECES = [
    b"{",
    b"}",
    b'"',
    b"'",
    b"\\",
    b" ",
    b"\n",
    b",",
    b"]",
    b'{"a":1}',
    b"\xff",
    "ë".encode(),
    b"x",
    b"",
]
SPACE = " \t\r\n"


def changed(number: int) -> Iterator[bytes]:
    """The known texts, joined, cut and with pieces inserted."""
    chance = random.Random(7)
    for _ in range(number):
        text = b"".join(chance.choices(KNOWN, k=chance.choice((1, 1, 1, 2))))
        for _ in range(chance.choice((1, 1, 2, 3))):
            place = chance.randint(0, len(text))
            text = text[:place] + chance.choice(PIECES) + text[chance.choice((place, place + 1)) :]
        yield text


def ends_with_its_object(data: bytes) -> bool | None:
    """Whether Python's parser reads one object up to the end; None if it reads none."""
    try:
        text = data.decode()
        found, end = json.JSONDecoder(strict=False).raw_decode(text.strip(SPACE))
    except ValueError:
        return None
    return len(text.strip(SPACE)) == end if isinstance(found, dict) else None


def test_the_function_is_true_only_if_nothing_follows_the_object(spark: SparkSession) -> None:
    texts = [*KNOWN, *changed(5_000), b'{"a": {"b": "}"}}', b"{'a': '}'}", '{"a": {"ë": 1}}'.encode()]
    functions = jar_functions(spark)
    assert functions, "the shared JVM has the jar"
    name = functions.is_one_object()
    frame = spark.createDataFrame([(text,) for text in texts], "value binary")
    answers = [row[0] for row in frame.selectExpr(f"{name}(value)").collect()]
    expected = [ends_with_its_object(text) for text in texts]
    wrong = [
        text for text, answer, end in zip(texts, answers, expected, strict=True) if answer and end is False
    ]
    assert wrong == []
    unknown = [text for text, answer, end in zip(texts, answers, expected, strict=True) if end and not answer]
    assert [text for text in unknown if b"'" not in text] == []
    assert Counter(map(bool, answers)).keys() == {True, False}
    assert spark.sql(f"SELECT {name}(NULL), {name}(X'')").first() == (False, False)


def test_rows_are_the_same_without_the_function(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = messages(spark, ((None, text) for text in (*KNOWN, *changed(1_500))))
    said = options(format="json", schema=COLUMNS)
    fast = decoded(raw, said, context(tmp_path), None).frame
    monkeypatch.setattr(decode, "jar_functions", lambda spark: None)
    plain = decoded(raw, said, context(tmp_path), None).frame
    assert "__hw_is_one_object" in fast._jdf.queryExecution().toString()
    assert "__hw_is_one_object" not in plain._jdf.queryExecution().toString()
    assert rows_of(fast) == rows_of(plain)


@pytest.mark.parametrize(
    "sql", ["rand()", "concat(CAST(value AS string), uuid())", "monotonically_increasing_id()"]
)
def test_a_lazy_function_must_be_deterministic(spark: SparkSession, sql: str) -> None:
    functions = jar_functions(spark)
    assert functions, "the shared JVM has the jar"
    with pytest.raises(AssertionError) as raised:
        functions.lazy(sql, {"value": "binary"})
    assert str(raised.value).splitlines()[0] == f"not deterministic: {sql}"


def rows_of(frame: DataFrame) -> Counter[str]:
    return Counter(row[0] for row in frame.selectExpr("to_json(struct(*))").collect())
