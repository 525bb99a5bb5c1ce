"""A rule about the number of pieces that state is divided into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Query, QueryRule, Situation, query_of
from headwater.errors.catalogue.reading import STATE_PARTITIONS

KEY = "spark.sql.shuffle.partitions"
FEW = 16
FOR_EACH_CORE = 8


class StatePartitions(QueryRule):
    """Every batch runs a task for each partition of state and writes its files, also for partitions that
    get no row. Spark's default of 200 is made for large batch jobs; the number freezes at the first start."""

    lasting = False
    entries = {STATE_PARTITIONS: Severity.ADVICE}
    example = """
        spark: {spark.sql.shuffle.partitions: 200}   # on a machine with 4 cores
        tables:
          per_page: SELECT page, count(*) AS n FROM clicks GROUP BY page
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        written = facts.settings.get(KEY, "")
        partitions = int(written) if written.isdigit() else 0
        if facts.stateful and partitions > max(FEW, FOR_EACH_CORE * facts.cores):
            problem = STATE_PARTITIONS.at(
                query.at(), sink=facts.sink, partitions=partitions, cores=facts.cores
            )
            yield Finding(problem, Severity.ADVICE, facts.sink)

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink, facts in situation.facts.items():
            # What froze at the first start can only be lived with.
            if sink in situation.stored or sink in situation.reached:
                continue
            place = situation.spec.setting_place(KEY, facts.settings.get(KEY, ""))
            for found in self.about(query_of(situation.spec, facts)):
                yield replace(found, problem=replace(found.problem, place=place or found.problem.place))
