"""The page of the error codes: message, hint, and whether a retry can help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headwater.connectors import all_connectors
from headwater.errors import Entry
from headwater.errors.catalogue import AREAS
from scripts.hints import constant_hints
from scripts.markdown import template, text
from scripts.reference_rules import area_of, built_in, link_of, rule_of

INTRODUCTION = """\
# Error codes

This page lists every code that Headwater reports, with its message and its hint. Headwater prints the code, the
message, the hint and, if your files cause the problem, the file and line. `--json` prints the same fields.

- `<name>` is a parameter: Headwater replaces it with the name, path or value at hand.
- **Retryable** means that the same command can succeed without a change, for example after a network failure.
- A code of a [check](checks.md) links to the rule that reports it, with an example.
"""

SECTIONS = {
    "Pipeline files": "Problems in a pipeline file or a Python declaration. See [Pipeline file](pipeline.md).",
    "Python and Java code": "Problems in your functions, classes and jars. See "
    "[Use Python code and UDFs](../build/python-code.md) and [Use jars and Java functions](../build/jars.md).",
    "SQL and tables": "Problems that Spark finds when it analyzes the tables of a pipeline.",
    "Connectors": "Problems with connectors in general, and with those that have no section here. See "
    "[Connectors](../connectors/index.md).",
    "Sources": "Problems with what a source reads. See [Connectors](../connectors/index.md).",
    "Files": "Problems with sources and sinks of files. See [Files](../connectors/files.md).",
    "Kafka": "Problems with Kafka sources and sinks. See [Kafka source](../connectors/kafka.md) and "
    "[Kafka sink](../connectors/kafka-sink.md).",
    "Message formats": "Problems with Avro schemas and schema registries. See "
    "[Message formats](../connectors/message-formats.md).",
    "Output modes": "Queries that do not support the output mode of their sink. See "
    "[Output modes](../concepts/output-modes.md).",
    "Watermarks": "Problems with event time and watermarks. See [Event time](../concepts/event-time.md).",
    "Joins": "Joins that Spark does not support, or that need unbounded state. See "
    "[Stream-stream joins](../transform/stream-joins.md).",
    "State": "Problems with stateful operators and their state. See [State](../concepts/state.md).",
    "Triggers": "Queries, sources and sinks that do not support a trigger. See [Triggers](../concepts/triggers.md).",
    "Unsupported operations": "Operations that Spark does not support on streams.",
    "Query pitfalls": "Queries that run, but are slow or return unexpected results.",
    "Deterministic results": "Queries whose results change when Spark retries a batch. See "
    "[Delivery guarantees](../concepts/delivery-guarantees.md).",
    "Expectations": "Problems with expectations, and rows that violate them. See "
    "[Set expectations](../operate/expectations.md).",
    "Sink groups": "Problems with sinks that share a query. See [Sink groups](../build/sink-groups.md).",
    "Quarantine and replay": "Bad rows, quarantined rows and their replay. See "
    "[Replay quarantined rows](../operate/replay.md).",
    "Running": "Problems while a pipeline starts, runs or stops. See [Run and stop](../operate/run-and-stop.md).",
    "Batch runs": "Problems with `headwater run --batch`. See [Batch runs](../operate/batch-runs.md).",
    "Checkpoints and locks": "Checkpoints that are damaged, incompatible or in use. See "
    "[Checkpoints](../concepts/checkpoints.md).",
    "Changed pipelines": "Changes that do not match an existing checkpoint. See "
    "[Change a running pipeline](../operate/change-a-pipeline.md).",
    "Testing": "Problems with tests and their rows. See [Test a pipeline](../build/test.md).",
    "Proofs": "Problems with `headwater prove`. See [Prove exactly-once](../operate/prove.md).",
    "PySpark scripts": "Problems when Headwater checks PySpark code. See "
    "[Check PySpark jobs](../build/pyspark-jobs.md).",
    "Commands and Python calls": "Problems with command-line options and arguments of the Python API. See "
    "[Commands](commands.md) and [Python API](python.md).",
    "Environment": "Problems with Java, Spark, Python, packages or the machine. To check the machine, run "
    "`headwater doctor`.",
    "Clusters": "Problems with the executors of a cluster. See [Deploy](../operate/deploy.md).",
    "Development servers": "Problems with `headwater dev`. See [Local Kafka](../connectors/local-kafka.md).",
    "Alerts": "Conditions of a running query that need attention. See [Health and alerts](../operate/health.md).",
    "Notices": "Events that a run logs. No action is needed.",
}
"""The sections of the page in order, each with its first sentence."""

MODULES = {
    "alerts": "Alerts",
    "connectors": "Connectors",
    "control": "Running",
    "environment": "Environment",
    "notices": "Notices",
    "pipelines": "Pipeline files",
    "programs": "Commands and Python calls",
    "proving": "Proofs",
    "running": "Running",
    "testing": "Testing",
}
"""The section of each module of the catalogue."""
CONNECTORS = {"files": "Files", "kafka": "Kafka"}
"""The section of each connector; the others share one."""

PREFIXES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Commands and Python calls": {
        "PySpark scripts": (
            *("CHECKPOINT", "CONNECT-SESSION", "DATAFRAME", "MODE", "PARTITION-BY", "QUERY-NAME", "SCRIPT"),
            *("SINK", "STREAM", "TRIGGER"),
        ),
    },
    "Connectors": {"Checkpoints and locks": ("CHECKPOINT", "SINK-CONNECTOR-CHANGED")},
    "Environment": {
        "Clusters": ("EXECUTORS", "PATH-NOT"),
        "Development servers": ("BROKER", "DEV-", "KAFKA-CLIENT", "PORT-", "PRODUCE", "TOPICS"),
    },
    "Expectations": {"Quarantine and replay": ("QUARANTINE", "REPLAY")},
    "Kafka": {"Message formats": ("AVRO", "REGISTRY")},
    "Pipeline files": {
        "Expectations": ("EXPECTATION",),
        "Python and Java code": ("AGGREGATOR", "CLASS", "CODE", "FUNCTION", "JAR", "NOT-SERIALIZABLE"),
    },
    "Running": {
        "Batch runs": ("BATCH-",),
        "Checkpoints and locks": ("CHECKPOINT", "JVM-STILL", "LOCK", "QUERY-METADATA", "RUN-DIR"),
        "Quarantine and replay": ("BAD-ROW", "EXPORT", "QUARANTINE", "REPLAY"),
        "SQL and tables": (
            *(
                "CLASS",
                "COLUMN",
                "DEDUP",
                "FUNCTION",
                "MODE",
                "PIVOT",
                "SINK-MODE",
                "SINK-NOT",
                "SPARK-ANALYSIS",
            ),
            *("SQL", "STREAM", "SUBQUERY", "TABLE", "TYPE", "WATERMARK"),
        ),
    },
}
"""Codes of a section that belong to a narrower one, by how they start."""

HINTED = "The hint depends on the case. Headwater prints it below the message."


@dataclass(frozen=True)
class Section:
    """One area of the page."""

    title: str
    words: str
    entries: tuple[Entry, ...]


def errors_page() -> Iterator[str]:
    yield from INTRODUCTION.splitlines()
    for section in sections():
        yield from ("", f"## {section.title}", "", section.words)
        for entry in section.entries:
            yield from entry_lines(entry)


def sections() -> list[Section]:
    """All entries by section, in the order of the page; codes in alphabetical order."""
    found: dict[str, dict[str, Entry]] = {}
    seen: set[str] = set()
    for title, entry in _entries():
        if entry.code not in seen:
            seen.add(entry.code)
            found.setdefault(section_of(title, entry.code), {})[entry.code] = entry
    order = [*SECTIONS, *sorted(found.keys() - SECTIONS.keys())]
    return [
        Section(title, SECTIONS.get(title, ""), tuple(entry for _, entry in sorted(found[title].items())))
        for title in order
        if title in found
    ]


def _entries() -> Iterator[tuple[str, Entry]]:
    """Every entry with the section that its module suggests."""
    for area, module in AREAS.items():
        title = MODULES.get(area, area.replace("_", " ").capitalize())
        yield from ((title, each) for each in vars(module).values() if isinstance(each, Entry))
    for connector in all_connectors().values():
        title = CONNECTORS.get(connector.name, "Connectors")
        yield from ((title, each) for each in connector.errors.values() if connector.built_in)
    for rule in built_in().values():
        yield from ((area_of(rule), each) for each in rule.entries)


def section_of(title: str, code: str) -> str:
    """The section of a code: a narrower one than its module suggests, if its name says so."""
    name = code.removeprefix("HW-")
    fitting = (narrow for narrow, starts in PREFIXES.get(title, {}).items() if name.startswith(starts))
    return next(fitting, title)


def entry_lines(entry: Entry) -> Iterator[str]:
    yield from ("", f"### {entry.code}", "", f"**Message:** {template(entry.message)}")
    if entry.hint:
        yield from ("", *hint_lines(entry), "", f"**Retryable:** {'yes' if entry.retryable else 'no'}")
    rule = rule_of(entry.code)
    if rule:
        yield from ("", f"**Check:** {link_of(rule)}")


def hint_lines(entry: Entry) -> Iterator[str]:
    hints = constant_hints().get(entry.code, ())
    if entry.hint != "{hint}":
        yield f"**Hint:** {template(entry.hint)}"
    elif len(hints) == 1:
        yield f"**Hint:** {text(hints[0].strip())}"
    elif hints:
        yield from ("**Hint**, depending on the case:", "", *(f"- {text(hint.strip())}" for hint in hints))
    else:
        yield f"**Hint:** {HINTED}"
