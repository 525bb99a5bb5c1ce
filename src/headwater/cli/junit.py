"""Results of tests as JUnit XML, which build servers read."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

from headwater.errors import UsageProblem, shown_file
from headwater.errors.catalogue.testing_files import TEST_WRITE
from headwater.testing.played import TestsResult
from headwater.testing.report import details
from headwater.testing.results import TestResult
from headwater.values import scrub

_ELEMENTS = {"failed": "failure", "refused": "error"}
# XML has no way to write these, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(result: TestsResult, file: Path) -> None:
    """Write the report; UsageProblem where the file can't be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(junit(result), encoding="utf-8")
    except OSError as error:
        raise UsageProblem(TEST_WRITE.at(None, path=str(file), reason=error.strerror)) from None


def junit(result: TestsResult) -> str:
    """The report: a suite for each file, a case for each test."""
    root = ElementTree.Element("testsuites", _counts(result.results, result.seconds))
    for file, results in groupby(result.results, key=_file):
        suite = tuple(results)
        seconds = sum(each.seconds for each in suite)
        element = ElementTree.SubElement(root, "testsuite", {"name": file, **_counts(suite, seconds)})
        for each in suite:
            _add_case(element, each)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, result: TestResult) -> None:
    place = {"line": str(result.place.line)} if result.place else {}
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {
            "classname": _file(result),
            "name": _clean(result.name),
            "file": _file(result),
            **place,
            "time": f"{result.seconds:.3f}",
        },
    )
    lines = details(result)
    if result.outcome in _ELEMENTS:
        why = ElementTree.SubElement(case, _ELEMENTS[result.outcome], {"message": _clean(_message(result))})
        why.text = _clean("\n".join(lines))
    elif lines:
        ElementTree.SubElement(case, "system-out").text = _clean("\n".join(lines))


def _message(result: TestResult) -> str:
    """The first thing that is wrong, in one line."""
    if result.problems:
        return f"{result.problems[0].code}: {result.problems[0].sentence}"
    step = next(step for step in result.steps if step.failures)
    return f"step {step.number}, {step.text}: {step.failures[0].sentence}"


def _counts(results: tuple[TestResult, ...], seconds: float) -> dict[str, str]:
    outcomes = [each.outcome for each in results]
    return {
        "tests": str(len(results)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("refused")),
        "skipped": "0",
        "time": f"{seconds:.3f}",
    }


def _file(result: TestResult) -> str:
    return _clean(shown_file(str(result.file))) if result.file else ""


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", scrub(text))
