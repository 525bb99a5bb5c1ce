"""Rules over what a sink's place holds, beside the checkpoint that is to go on with it."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.changes import changed_options, moved
from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.errors.catalogue.files_sink import FILE_OUTSIDE_FOLDER, OUTPUT_AHEAD, OUTPUT_UNREADABLE
from headwater.errors.catalogue.running import FACTS_GONE


class OutputAhead(Rule):
    """A place that has noted a batch passes it over: under a checkpoint that counts anew, rows are lost."""

    entries = {OUTPUT_AHEAD: Severity.ERROR}
    example = """
        $ headwater run pipeline.yml --until-idle
        $ rm -r .headwater
        $ headwater run pipeline.yml --until-idle
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        positions = {sink.name: sink.position for sink in situation.spec.sinks}
        for sink, now in situation.facts.items():
            reached = situation.reached.get(sink)
            if now.held_batch is None or now.held_batch <= (reached.batch if reached else -1):
                continue
            stands = f"stands at batch {reached.batch}" if reached else "has not begun"
            problem = OUTPUT_AHEAD.at(
                positions[sink], sink=sink, place=", ".join(now.places), held=now.held_batch, stands=stands
            )
            yield Finding(problem, sink=sink)


class OutputMisplaced(Rule):
    """The log of a folder holds whole paths: of a moved folder it names the old place to readers."""

    entries = {FILE_OUTSIDE_FOLDER: Severity.ERROR}
    example = """
        $ headwater run pipeline.yml --until-idle
        $ mv out elsewhere
        $ sed -i 's/out/elsewhere/' pipeline.yml
        $ headwater run pipeline.yml --until-idle
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        positions = {sink.name: sink.position for sink in situation.spec.sinks}
        for sink, now in situation.facts.items():
            then = situation.stored.get(sink)
            # Where the project was moved, or the path was changed, that is the error.
            elsewhere = then is not None and bool(moved(then, now))
            if now.held_outside and not elsewhere and not changed_options(situation, sink):
                folder = ", ".join(now.places)
                problem = FILE_OUTSIDE_FOLDER.at(positions[sink], folder=folder, file=now.held_outside)
                yield Finding(problem, sink=sink)


class OutputUnreadable(Rule):
    """A file that is gone or damaged stops the readers of a folder; the query itself does not need it."""

    entries = {OUTPUT_UNREADABLE: Severity.WARNING}
    example = """
        $ headwater run pipeline.yml --until-idle
        $ rm out/part-*
        $ headwater run pipeline.yml --until-idle
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        positions = {sink.name: sink.position for sink in situation.spec.sinks}
        for sink, now in situation.facts.items():
            if changed_options(situation, sink):
                continue
            if now.held_unreadable and not now.held_outside:
                place, says = ", ".join(now.places), now.held_unreadable
                problem = OUTPUT_UNREADABLE.at(positions[sink], sink=sink, place=place, says=says)
                yield Finding(problem, Severity.WARNING, sink)


class FactsGone(Rule):
    """Without the facts of the last start nothing tells whether the query is still the same."""

    entries = {FACTS_GONE: Severity.WARNING}
    example = """
        $ headwater run pipeline.yml --until-idle
        $ rm -r .headwater/facts
        $ headwater run pipeline.yml --until-idle
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        positions = {sink.name: sink.position for sink in situation.spec.sinks}
        for sink in situation.facts:
            reached = situation.reached.get(sink)
            if reached and sink not in situation.stored:
                problem = FACTS_GONE.at(positions[sink], sink=sink, checkpoint=reached.checkpoint)
                yield Finding(problem, Severity.WARNING, sink)
