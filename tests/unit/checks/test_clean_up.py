"""Rules about finished files that are taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.checks import Severity, Situation
from headwater.checks.sources import clean_up_unsafe, clean_up_waits
from headwater.plan import Graph
from tests.unit.specs import spec_of

PIPELINE = """
    name: cleaned
    sources:
      cleaned: {connector: files, path: in, format: text, clean_up: delete}
      other: {connector: files, format: text, %s}
    tables:
      words: SELECT value FROM cleaned
    sinks:
      one: {reads: Words, connector: %s}
      two: {reads: other, connector: console}
"""


def situation(root: Path, other: str, sink: str = "console") -> Situation:
    (root / "in").mkdir(exist_ok=True)
    (root / "beside").mkdir(exist_ok=True)
    spec = spec_of(PIPELINE % (other, sink), root)
    return Situation(spec, Graph.of(spec), environ={})


def test_a_sink_that_begins_anew_needs_the_files_again(tmp_path: Path) -> None:
    (found,) = clean_up_unsafe.findings(situation(tmp_path, "path: beside", "memory"))
    assert (found.problem.code, found.severity) == ("HW-CLEAN-UP-IN-PROCESS", Severity.ERROR)
    assert found.problem.params == {"sink": "one", "name": "cleaned", "done": "deleted"}
    assert found.problem.place
    assert found.problem.place.line == 8


@pytest.mark.parametrize(
    ("other", "keys"),
    [
        ('path: "in/*.txt", options: {pathGlobFilter: "a*", modifiedAfter: "2026-01-01T00:00:00"}', "both"),
        ("path: ., max_file_age: 1 day", "`max_file_age`"),
        ("path: [beside, in], file_name_only: true", "`file_name_only`"),
        ("path: in", None),
        ("path: beside, file_name_only: true", None),
        ("path: in, options: {wholetext: true}", None),
    ],
)
def test_files_that_another_source_passes_over_stay(tmp_path: Path, other: str, keys: str | None) -> None:
    found = list(clean_up_waits.findings(situation(tmp_path, other)))
    named = "`pathGlobFilter`, `modifiedAfter`" if keys == "both" else keys
    assert [each.problem.params["keys"] for each in found] == ([named] if named else [])
    assert all(
        (each.problem.code, each.severity) == ("HW-CLEAN-UP-WAITS", Severity.WARNING) for each in found
    )


@pytest.mark.parametrize("path", ["file://{}/in", "linked", "{{in,beside}}/*.txt"])
def test_a_static_source_that_names_the_folder_differently(tmp_path: Path, path: str) -> None:
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    shared = situation(tmp_path, f'path: "{path.format(tmp_path)}", static: true')
    assert [each.problem.code for each in clean_up_unsafe.findings(shared)] == ["HW-CLEAN-UP-SHARED"]
