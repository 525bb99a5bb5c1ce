"""Print the feature contract with the results of the last test run, and the totals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from scripts.contract import RECORDS, STATES, Result, Row, State, contract, read_results, state_of


def states(rows: Iterable[Row], results: Iterable[Result]) -> dict[str, State]:
    """The state of every row, by id."""
    of_row: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        of_row[result.feature].append(result)
    return {row.id: state_of(of_row[row.id]) for row in rows}


def totals(found: Iterable[State]) -> str:
    """The last line of the report."""
    counts = Counter(found)
    return "features: " + ", ".join(f"{counts[state]} {state}" for state in STATES)


def report(rows: Sequence[Row], results: Sequence[Result]) -> Iterator[str]:
    """The lines to print: sections, rows with the parts and failures behind their state, totals."""
    found = states(rows, results)
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            yield f"\n{section}"
        yield f"  {found[row.id]:<8} {row.id:<6} {row.claim}"
        yield from _reasons(row.id, found[row.id], results)
    yield ""
    yield totals(found.values())


def _reasons(row: str, state: State, results: Iterable[Result]) -> Iterator[str]:
    mine = [result for result in results if result.feature == row]
    if state == "part":
        shown = {result.part for result in mine if result.outcome == "passed"}
        yield from (f"{'':<18}part: {part}" for part in sorted(shown))
    if state == "fail":
        yield from (f"{'':<18}failed: {result.test}" for result in mine if result.outcome == "failed")


def main() -> None:
    """Print the report of the records under build/features."""
    for line in report(contract(), read_results(RECORDS)):
        print(line)


if __name__ == "__main__":
    main()
