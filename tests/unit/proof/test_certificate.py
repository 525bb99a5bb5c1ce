"""The certificate as text, JSON and a badge."""

from __future__ import annotations

import json
from dataclasses import replace

from headwater.cli.prove_views import certificate_lines
from headwater.proof.certificate import Certificate, Kill, Reference, SinkProof, Violation, command_of
from headwater.proof.contents import Difference
from headwater.proof.points import BY_NAME
from headwater.proof.scratch import Unproven

KILL = Kill(1, "mid-task", "orders", "JVM", True, 3, "batch 3 was planned", False)
MISSED = Kill(2, "worker", "orders", "Python worker", False, 3, "no worker runs", False)
CERTIFICATE = Certificate(
    pipeline="shop",
    file="shop.yml",
    command="headwater prove shop.yml --kills 2 --seed 7",
    versions={"headwater": "0.1.0"},
    started_at="2026-01-01T12:00:00+00:00",
    seconds=61.5,
    seed=7,
    kills_requested=2,
    batches=5,
    rounds=1,
    sinks=(SinkProof("orders", "sqlite", "append", Reference.STREAM, 60, 1, 9, not_in_batch=2),),
    not_proven=(Unproven("shown", "console", "it stores no rows"),),
    kills=(KILL, MISSED),
    violations=(),
    points=("mid-task", "worker", "random"),
)
VIOLATION = Violation("orders", "rows differ", 1, Difference(0, 1, (), ("(1,)",)))


def test_a_proven_pipeline_is_shown_with_what_was_not_reached() -> None:
    text = "\n".join(certificate_lines(CERTIFICATE))
    for part in (
        "Pipeline shop: proven",
        "2 kills, 1 reached their point, in 1 round, seed 7",
        "orders (sqlite, append): 60 rows of the undisturbed run; compared 1 time, ",
        "read 9 times by the concurrent reader",
        "2 rows not in the batch result",
        "not proven  shown (console): it stores no rows",
        f"mid-task             1 kill: {BY_NAME['mid-task'].summary}",
        "worker               not reached",
        "random               not tried",
        "badge/headwater_prove-1%20kill%2C%20no%20violations-brightgreen",
    ):
        assert part in text
    assert "to repeat" not in text
    assert CERTIFICATE.exit_code == 0


def test_why_there_is_no_batch_result_is_shown() -> None:
    sink = replace(CERTIFICATE.sinks[0], no_batch="ValueError: two rows")
    certificate = replace(CERTIFICATE, sinks=(sink,))
    assert "no batch result: ValueError: two rows" in "\n".join(certificate_lines(certificate))
    assert certificate.to_json()["sinks"][0]["no_batch"] == "ValueError: two rows"


def test_a_violation_is_shown_with_its_rows_and_the_command() -> None:
    certificate = replace(CERTIFICATE, violations=(VIOLATION,), scratch=("/scratch",))
    text = "\n".join(certificate_lines(certificate))
    assert "Pipeline shop: NOT PROVEN" in text
    assert "VIOLATION   `orders`: rows differ (after kill 1): 1 row extra: (1,)" in text
    assert "to repeat   headwater prove shop.yml --kills 2 --seed 7" in text
    assert "scratch     /scratch" in text
    assert certificate.exit_code == 1


def test_without_a_kill_at_its_point_nothing_is_proven() -> None:
    certificate = replace(CERTIFICATE, kills=(MISSED,), batches=2)
    text = "\n".join(certificate_lines(certificate))
    assert "Pipeline shop: NOT PROVEN" in text
    assert "few batches" in text
    assert certificate.exit_code == 1


def test_the_json_has_all_of_it() -> None:
    found = json.loads(json.dumps(replace(CERTIFICATE, violations=(VIOLATION,)).to_json()))
    assert (found["version"], found["proven"], found["seed"], found["kills_requested"]) == (1, False, 7, 2)
    assert found["points"]["worker"] == {"reached": 0, "tried": 1}
    assert [kill["reached"] for kill in found["kills"]] == [True, False]
    assert found["violations"][0]["difference"]["extra_rows"] == ["(1,)"]
    assert found["not_proven"] == [{"sink": "shown", "connector": "console", "reason": "it stores no rows"}]


def test_the_command_names_only_what_is_not_the_default() -> None:
    assert command_of("a b.yml", 3, 1, tuple(BY_NAME), {}) == "headwater prove 'a b.yml' --kills 3 --seed 1"
    words = command_of("p.yml", 3, 1, ("random",), {"orders": ("/in",)})
    assert words == "headwater prove p.yml --kills 3 --seed 1 --point random --input orders=/in"
    conf = {"spark.sql.shuffle.partitions": "4", "spark.hadoop.fs.s3a.secret.key": "sesame"}
    words = command_of("p.yml", 3, 1, tuple(BY_NAME), {}, timeout="3 hours", master="local[2]", conf=conf)
    assert words.startswith(
        "headwater prove p.yml --kills 3 --seed 1 --timeout '3 hours' --master 'local[2]' "
        "--conf spark.sql.shuffle.partitions=4 --conf "
    )
    assert "sesame" not in words
