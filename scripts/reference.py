"""Write the reference pages and the list of errors from the code; `--check` only compares.

Run as `python -m scripts.reference`. The pages are committed, so that they can be read without building.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from string import Formatter
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer.core
import typer.main
from pydantic import BaseModel

from headwater.api.project import KINDS as PROJECTS
from headwater.api.project import TEMPLATES
from headwater.cli.main import app
from headwater.connectors import Connector, Sink, Source, all_connectors
from headwater.errors import Entry, HeadwaterError
from headwater.errors.catalogue import AREAS
from headwater.loaders.json_schema import VARIABLE, keys_of
from headwater.loaders.keys import PipelineKeys, TableKeys
from headwater.spec import FunctionRef, Mode, Schema, Watermark
from headwater.spec.pipeline import FunctionKeys, SinkKeys, SourceKeys
from headwater.values import Duration
from headwater.values.triggers import Every, EveryBatch
from scripts.contract import ROOT
from scripts.modes import with_section
from scripts.reference_python import python_page
from scripts.reference_rules import built_in as rules_built_in
from scripts.reference_rules import rules_page

DOCS = ROOT / "docs"
MODES = "concepts/output-modes.md"
"""Written by hand, but for its tables."""
NOTE = "<!-- Written by `python -m scripts.reference` from the code; change it there. -->"

# What a person would call the type; everything else is read from the JSON Schema.
KINDS = {
    Duration: "duration such as `10 minutes`",
    datetime: "time such as `2026-01-31T12:00:00Z`",
    FunctionRef: 'function such as `"out.py:write"`',
    EveryBatch: "text such as `every batch`",
    Every: "trigger such as `every 10 seconds`",
    Schema: "mapping of columns to types, or text",
    Watermark: "mapping; see [watermarks](#watermarks)",
}
TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
}


NAMED_THINGS = {part: f"mapping of names to {part}" for part in ("functions", "sources", "tables", "sinks")}

ACCEPT = "mapping of codes to reasons; see [checking](../guides/checking.md#accepting-a-finding)"


def pages() -> dict[str, str]:
    """Every generated page by its path under docs/."""
    made = {
        "reference/pipeline.md": pipeline_page(),
        "reference/connectors.md": connectors_page(),
        "reference/commands.md": commands_page(),
        "reference/python.md": python_page(),
        "errors.md": errors_page(),
        "rules.md": rules_page(text, template),
    }
    whole = {path: "\n".join([NOTE, "", *lines]).rstrip("\n") + "\n" for path, lines in made.items()}
    return {**whole, MODES: with_section((DOCS / MODES).read_text(encoding="utf-8"))}


def text(words: str) -> str:
    """Words in which only what stands between backticks is markup."""
    parts = words.split("`")
    outside = [part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts)]
    return "`".join(outside)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown and the empty line after it."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
    yield ""


def keys_table(model: type[BaseModel], **kinds: str) -> Iterator[str]:
    """The keys of a model: name, type, default, meaning; `kinds` names types better than the model can."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    rows = [
        (
            f"`{key}`",
            kinds.get(key) or kind(fields[key].annotation, node),
            "required" if fields[key].is_required() else default_words(node.get("default")),
            text(node.get("description", "")),
        )
        for key, node in keys_of(model).items()
    ]
    return table(("key", "type", "default", "meaning"), rows)


def kind(annotation: object, node: dict[str, Any]) -> str:
    """The type of a key in words."""
    for leaf in leaves(annotation):
        if leaf in KINDS:
            return KINDS[leaf]
    choices = [each for each in node.get("anyOf", [node]) if each not in (VARIABLE, {"type": "null"})]
    words = " or ".join(dict.fromkeys(choice_words(each) for each in choices))
    return f"{words} such as `{node['examples'][0]}`" if "examples" in node else words


def leaves(annotation: object) -> Iterator[Any]:
    """The members of a union, without their annotations."""
    if get_origin(annotation) is Annotated:
        yield from leaves(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from leaves(member)
    else:
        yield annotation


def choice_words(node: dict[str, Any]) -> str:
    if "enum" in node:
        return "one of " + ", ".join(f"`{each}`" for each in node["enum"])
    if node.get("type") == "array":
        return f"list of {choice_words(node.get('items', {}))}"
    if isinstance(node.get("additionalProperties"), dict):
        return "mapping of names to text, numbers or switches"
    return TYPES.get(node.get("type", ""), "anything")


def default_words(default: object) -> str:
    if default is None or default in ([], {}):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def pipeline_page() -> Iterator[str]:
    yield from ("# Pipeline files", "")
    yield "A pipeline file is YAML 1.2. It declares sources, tables and sinks, and settings of the whole."
    yield "An unknown key is refused. This is the file that `headwater init` makes:"
    made = TEMPLATES / PROJECTS["word-count"].folder / "pipeline.yml"
    yield from ("", "```yaml", made.read_text(encoding="utf-8").rstrip(), "```", "")
    yield from ("## Top level", "", *keys_table(PipelineKeys, **NAMED_THINGS, accept=ACCEPT))
    yield "Names of sources, tables and sinks are letters, digits and `_`, and don't begin with a digit."
    yield from ("Sources and tables share one name space.", "", "## Functions", "")
    yield "A function that SQL can call by its name; it has exactly one of `python` and `class`. See"
    yield from (
        "[functions for SQL](../guides/functions.md).",
        "",
        *keys_table(FunctionKeys),
        "## Sources",
        "",
    )
    yield "Every source has these keys, and those of its [connector](connectors.md) beside them."
    yield from ("", *keys_table(SourceKeys, connector=one_of("source")), "## Tables", "")
    yield "A table is SQL text (`name: SELECT …`), or a mapping with exactly one of `sql`, `python` and"
    yield "`distinct`. The parameters of a Python function name the tables and sources it reads; one with a"
    yield from ("default that is named like none of them keeps it.", "")
    yield from (*keys_table(TableKeys, accept=ACCEPT), "## Sinks", "")
    yield "Every sink has these keys, and those of its [connector](connectors.md) beside them. Each sink is a"
    yield "query of its own; see [independent queries](../concepts/independent-queries.md),"
    yield "[output modes](../concepts/output-modes.md) and [triggers](../concepts/triggers.md)."
    yield from ("", *keys_table(SinkKeys, connector=one_of("sink"), accept=ACCEPT), "## Watermarks", "")
    yield "`watermark:` stands on a source, or on a table that makes the event-time column; see"
    yield from ("[event time](../concepts/event-time.md).", "", *keys_table(Watermark))
    yield from VALUES.splitlines()


VALUES = """\
## Values

- **Durations** are numbers with units: `10 minutes`, `60s`, `500 ms`, `1 hour 30 minutes`.
- **Triggers** are `every 10 seconds`, `once`, `available now`, `continuous 1 second` and
  `real time 5 minutes` ([what each can do](../concepts/triggers.md)). Without one, the next batch starts as
  soon as the last one has ended.
- **Paths** are relative to the pipeline file.
- **Variables**: `${NAME}` and `${NAME:-default}` come from the environment. Between `{` and `}` quote them:
  `{path: "${FOLDER}"}`. `$${` is a plain `${`.
- **Secrets**: `${secret:NAME}` is never printed; it may stand in `options:`, and where a
  key such as `password` asks for one.

## In an editor

`headwater schema > pipeline.schema.json` writes a JSON Schema of this page, with every installed connector.
Editors that know the YAML language server complete and check a file that begins with

```yaml
# yaml-language-server: $schema=pipeline.schema.json
```
"""


def built_in() -> list[Connector]:
    """The connectors of Headwater itself; what else is installed here is no part of the pages."""
    return [each for each in all_connectors().values() if each.built_in]


def one_of(side: str) -> str:
    """The connectors that can be a source or a sink."""
    fitting = (each.name for each in built_in() if getattr(each, side))
    return "one of " + ", ".join(f"[`{name}`](connectors.md#{name})" for name in fitting)


def connectors_page() -> Iterator[str]:
    yield from ("# Connectors", "")
    yield "The keys of a connector stand beside `connector:` in a source or sink, together with the keys"
    yield "that [every source and sink](pipeline.md) has. Installed connectors of other packages work alike."
    yield ""
    yield from table(("connector", "source", "sink", "what it is"), (overview(each) for each in built_in()))
    for connector in built_in():
        yield from (f"## {connector.name}", "", text(connector.summary), "")
        if connector.source:
            yield from (f"### {connector.name} as a source", "", *source_lines(connector.source))
        if connector.sink:
            yield from (f"### {connector.name} as a sink", "", *sink_lines(connector.sink))


def overview(connector: Connector) -> tuple[str, ...]:
    modes = f"yes: {mode_words(connector.sink)}" if connector.sink else ""
    link = f"[`{connector.name}`](#{connector.name})"
    return link, "yes" if connector.source else "", modes, text(connector.summary)


def mode_words(side: Sink[Any]) -> str:
    return ", ".join(mode.value for mode in Mode if mode.value in side.modes)


def source_lines(side: Source[Any]) -> Iterator[str]:
    yield from (first_line(side.options), "")
    again = "with the same rows" if side.replayable else "only in part: rows may be lost"
    yield f"- After a crash a batch is read again {again}."
    form = "can be read as a finished table" if side.batch else "can't be read as a finished table"
    yield f"- What it holds now {form} (`static: true`, `run --batch`)."
    yield from ("", *keys_table(side.options))


def sink_lines(side: Sink[Any]) -> Iterator[str]:
    yield from (first_line(side.options), "")
    yield f"- Modes: {mode_words(side)}."
    yield f"- Delivery: {side.delivery.value}."
    can = "It can" if side.batch else "It can't"
    place = ", with `--append`" if side.appends else ", with `--into` for the place" if side.stores else ""
    into = place if side.batch else ""
    yield f"- {can} take the rows of `run --batch`{into}."
    yield from ("", *keys_table(side.options))


def first_line(thing: object) -> str:
    return text((inspect.getdoc(thing) or "").partition("\n")[0])


def commands_page() -> Iterator[str]:
    group: Any = typer.main.get_command(app)
    yield from ("# Commands", "", text(group.help), "")
    yield from table(("option", "default", "meaning"), (option_row(each) for each in group.params))
    yield from table(
        ("command", "what it does"),
        (
            (f"[`{name}`](#headwater-{name.replace(' ', '-')})", text(each.help))
            for name, each in typed_commands(group)
        ),
    )
    for name, command in typed_commands(group):
        yield from (f"## headwater {name}", "", text(command.help), "")
        arguments = [each for each in command.params if isinstance(each, typer.core.TyperArgument)]
        usage = " ".join(["headwater", name, "[OPTIONS]", *(each.metavar or each.name for each in arguments)])
        yield from ("```sh", usage, "```", "")
        yield from table(("option", "default", "meaning"), (option_row(each) for each in command.params))
    yield from ("## Exit codes", "", *table(("code", "meaning"), exit_codes()))


def typed_commands(group: Any) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the names of its groups before its own."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", each) for inner, each in typed_commands(command))
        else:
            yield name, command


def option_row(option: Any) -> tuple[str, str, str]:
    meaning = text(option.help or "") + (" May be given several times." if option.multiple else "")
    if isinstance(option, typer.core.TyperArgument):
        return f"`{option.metavar or option.name}`", "required" if option.required else "", meaning
    value = "" if option.is_flag else f" {option.metavar or '…'}"
    names = ", ".join(f"`{name}{value}`" for name in (*option.opts, *option.secondary_opts))
    switched_on = option.is_flag and option.default
    default = option.opts[0] if switched_on else "" if option.is_flag else str(option.default or "")
    return names, f"`{default}`" if default else "", meaning


def exit_codes() -> Iterator[tuple[str, str]]:
    """The codes of the error tree, and the two that are no error of the tree."""
    codes: dict[int, list[str]] = {0: ["All went well."], 70: ["A fault of Headwater's own."]}
    for error in subclasses(HeadwaterError):
        codes.setdefault(error.exit_code, []).append(first_line(error))
    return ((f"`{code}`", " ".join(meanings)) for code, meanings in sorted(codes.items()))


def subclasses(error: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    for inner in error.__subclasses__():
        yield inner
        yield from subclasses(inner)


def errors_page() -> Iterator[str]:
    yield from ("# Errors", "")
    yield "Every failure has a code, a sentence and what to do next. Words in braces are filled in for the"
    yield "case at hand. Where the same may succeed when it is simply tried again, the entry says so."
    yield ""
    for title, (words, entries) in sorted(areas().items()):
        yield from (f"## {title}", "", words, "")
        for entry in sorted(entries, key=lambda entry: entry.code):
            yield from entry_lines(entry)


def areas() -> dict[str, tuple[str, set[Entry]]]:
    """What each area is about, and its entries; those that only rules have stand beside the rules."""
    made = {
        area.capitalize(): (
            first_line(module),
            {each for each in vars(module).values() if isinstance(each, Entry)},
        )
        for area, module in AREAS.items()
    }
    for connector in all_connectors().values():
        if connector.built_in and connector.errors:
            words = f"What can go wrong with a source or a sink of the connector `{connector.name}`."
            made[connector.name.capitalize()] = (words, set(connector.errors.values()))
    elsewhere = {entry for _, entries in made.values() for entry in entries}
    of_rules = {entry for rule in rules_built_in().values() for entry in rule.entries} - elsewhere
    return {**made, "Checks": ("What `headwater check` says; see [rules](rules.md).", of_rules)}


def entry_lines(entry: Entry) -> Iterator[str]:
    yield from (f"### {entry.code}", "", template(entry.sentence), "")
    if entry.remedy:
        yield f"What to do: {template(entry.remedy)}" if entry.remedy != "{hint}" else HINTED
    if entry.retry:
        yield "Simply trying again can help."
    yield ""


HINTED = "What to do depends on the case; the message says it."


def template(words: str) -> str:
    """A template as people read it: doubled braces single, fields without conversions."""
    parts = (
        literal + (f"{{{field}}}" if field is not None else "")
        for literal, field, _, _ in Formatter().parse(words.removeprefix("{hint} "))
    )
    return text("".join(parts))


def different() -> list[str]:
    """The pages whose committed text is not what the code says."""
    return [
        path
        for path, made in pages().items()
        if not (DOCS / path).is_file() or (DOCS / path).read_text(encoding="utf-8") != made
    ]


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with `--check` name those that are out of date."""
    stale = different()
    if "--check" in arguments:
        for path in stale:
            print(f"docs/{path} is out of date: run `python -m scripts.reference`")
        return int(bool(stale))
    made = pages()
    for path in stale:
        (DOCS / path).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / path).write_text(made[path], encoding="utf-8")
        print(f"wrote docs/{path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
