from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness import (
    Benchmark,
    Case,
    CaseResult,
    Outcome,
    Sample,
    Target,
    Unavailable,
    Variant,
    commit,
    from_json,
    geometric_mean,
    lines,
    measure,
    number,
    run,
    to_json,
)


def returns(*values: float, detail: str = "") -> Callable[[Path], Sample]:
    """A variant that measures these values, one per round."""
    left = list(values)

    def run(folder: Path) -> Sample:
        assert list(folder.iterdir()) == []
        (folder / "left").touch()
        value = left.pop(0)
        return Sample(value, 2 * value, {detail: 10 * value} if detail else {})

    return run


def case(*variants: Variant, better: str = "lower", **settings: object) -> Case:
    return Case("counting", "ms", better, variants, baseline="b", **settings)  # type: ignore[arg-type]


def test_the_order_of_the_variants_rotates(tmp_path: Path) -> None:
    order: list[str] = []

    def noted(name: str) -> Variant:
        def run(folder: Path) -> Sample:
            order.append(name)
            return Sample(1)

        return Variant(name, run)

    measure(case(noted("a"), noted("b"), noted("c")), 4, tmp_path)
    assert "".join(order) == "abcacbcabcba"
    assert list(tmp_path.iterdir()) == []


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds(tmp_path: Path) -> None:
    # The machine became slower from round to round; the ratio of the medians would be 1.0.
    result = measure(case(Variant("a", returns(1, 40, 60)), Variant("b", returns(2, 40, 80))), 3, tmp_path)
    ours = result.variant("a")
    assert ours is not None
    assert (ours.median, ours.spread, ours.cpu) == (40, (1, 60), 80)
    assert (ours.ratio, ours.lost) == (0.75, 0)
    assert result.ratio("b", "a") == pytest.approx(80 / 60)


@pytest.mark.parametrize(("better", "lost"), [("lower", 2), ("higher", 1)])
def test_lost_rounds_are_counted(better: str, lost: int, tmp_path: Path) -> None:
    variants = (Variant("a", returns(3, 1, 3)), Variant("b", returns(2, 2, 2)))
    result = measure(case(*variants, better=better), 3, tmp_path)
    assert result.variants[0].lost == lost
    assert f"lost {lost} of 3" in "\n".join(lines(result))


def test_a_slow_variant_takes_part_in_fewer_rounds_and_compares_a_detail(tmp_path: Path) -> None:
    slow = Variant("slow", returns(500, 700, detail="first"), rounds=2, compare_on="first")
    result = measure(case(slow, Variant("b", returns(5, 5, 5, detail="first"))), 3, tmp_path)
    found = result.variants[0]
    assert (len(found.samples), found.ratio) == (2, 120)


def test_a_variant_that_is_not_available_is_listed_with_its_reason(tmp_path: Path) -> None:
    def missing(folder: Path) -> Sample:
        raise Unavailable("no wheel for this Python")

    target = Target("peer", "b", 1.0, "at most")
    result = measure(
        case(Variant("peer", missing), Variant("b", returns(1, 1)), targets=[target]), 2, tmp_path
    )
    assert result.variant("peer") is None
    (outcome,) = result.outcomes
    assert (outcome.reached, outcome.met) == (None, False)
    assert str(outcome) == "counting: peer / b: not measured, target at most 1: MISSED"
    assert "not available: no wheel for this Python" in "\n".join(lines(result))


def test_an_error_ends_the_benchmark_and_names_the_variant(tmp_path: Path) -> None:
    def broken(folder: Path) -> Sample:
        raise RuntimeError("3 rows were read, expected 4")

    with pytest.raises(RuntimeError, match="3 rows") as caught:
        measure(case(Variant("a", broken), Variant("b", returns(1))), 1, tmp_path)
    assert caught.value.__notes__ == ["The variant was 'a'."]


@pytest.mark.parametrize(
    ("target", "reached", "met"),
    [
        (Target("a", "b", 1.05, "at most"), 1.5, False),
        (Target("a", "b", 1.5, "at most"), 1.5, True),
        (Target("b", "a", 0.7, "at least"), 2 / 3, False),
        (Target("a", None, 3, "at most"), 3, True),
        (Target("a", None, 29, "at most", "p50"), 30, False),
    ],
)
def test_a_target_is_met_or_missed(target: Target, reached: float, met: bool, tmp_path: Path) -> None:
    variants = (Variant("a", returns(3, detail="p50")), Variant("b", returns(2)))
    (outcome,) = measure(case(*variants, targets=[target]), 1, tmp_path).outcomes
    assert outcome.reached == pytest.approx(reached)
    assert outcome.met is met
    assert str(outcome).endswith("met" if met else "MISSED")


class Counting(Benchmark):
    name = "counting"
    title = "Counting"
    description = "Nothing is measured"

    def cases(self, quick: bool) -> list[Case]:
        return [case(Variant("a", returns(4)), Variant("b", returns(2))) for _ in range(2)]

    def outcomes(self, results: object) -> list[Outcome]:
        mean = geometric_mean(results, "a", "b")  # type: ignore[arg-type]
        assert mean is not None
        return [Outcome("mean", mean, 1.0, "at most")]


def test_the_results_are_stored_and_read_back(tmp_path: Path) -> None:
    assert not run(Counting(), rounds=1, quick=True, results=tmp_path)
    document = json.loads((tmp_path / "counting.json").read_text(encoding="utf-8"))
    cases, outcomes = from_json(document)
    assert [each.ratio("a", "b") for each in cases] == [2, 2]
    assert [(each.text, each.reached, each.met) for each in outcomes] == [("mean", 2, False)]
    assert {"cores", "memory_gb", "processor", "java", "spark", "python", "date", "load_before"} <= set(
        document["facts"]
    )
    assert to_json(Counting(), cases, outcomes, document["facts"])["cases"] == [
        json.loads(json.dumps(each), object_hook=_with_rounds) for each in document["cases"]
    ]


def _with_rounds(value: dict[str, object]) -> dict[object, object]:
    """JSON turns the numbers of rounds into text."""
    return {int(key) if key.isdigit() else key: each for key, each in value.items()}


@pytest.mark.parametrize(("load", "warned"), [(0.5, False), (0.51, True)])
def test_a_load_before_the_run_is_a_warning(
    load: float,
    warned: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    run(Counting(), rounds=1, quick=True, results=tmp_path)
    stored = json.loads((tmp_path / "counting.json").read_text(encoding="utf-8"))["warnings"]
    expected = [f"the load before the run was {load:g}: use an idle machine"] if warned else []
    assert stored == expected
    assert ("Warning: the load" in capsys.readouterr().out) == warned


def test_the_commit_is_recorded(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        named = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        return subprocess.run(
            ["git", *named, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    assert commit(tmp_path) == {}
    git("init", "-q")
    (tmp_path / "code.py").touch()
    git("add", ".")
    git("commit", "-qm", "first")
    head = git("rev-parse", "HEAD").strip()
    assert commit(tmp_path) == {"commit": head, "dirty": False}
    (tmp_path / "bench" / "results").mkdir(parents=True)
    (tmp_path / "bench" / "results" / "growth.json").touch()
    assert commit(tmp_path) == {"commit": head, "dirty": False}
    (tmp_path / "new.py").touch()
    assert commit(tmp_path) == {"commit": head, "dirty": True}


def test_some_cases_alone_store_no_results(tmp_path: Path) -> None:
    run(Counting(), rounds=1, quick=True, pattern="count", results=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_results_of_another_version_are_rejected() -> None:
    with pytest.raises(ValueError, match="version 0, expected 1"):
        from_json({"version": 0})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.012345, "0.0123"), (1.0, "1.00"), (98.76, "98.8"), (1234.5, "1,234"), (3e6, "3,000,000")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_the_mean_of_no_case_is_nothing() -> None:
    assert geometric_mean([CaseResult("c", "s", "lower", "b", ())], "a", "b") is None


class Breaking(Counting):
    def cases(self, quick: bool) -> list[Case]:
        def broken(folder: Path) -> Sample:
            raise RuntimeError("3 rows were read, expected 4")

        good, _ = super().cases(quick)
        return [Case("broken", "ms", "lower", [Variant("a", broken)]), good]


def test_a_case_that_fails_does_not_prevent_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not run(Breaking(), rounds=1, quick=True, results=tmp_path)
    document = json.loads((tmp_path / "counting.json").read_text(encoding="utf-8"))
    assert ([each["name"] for each in document["cases"]], document["failed"]) == (["counting"], ["broken"])
    assert "3 rows were read, expected 4" in capsys.readouterr().err
