"""The JSON Schema of pipeline files, for editors: generated from the models that validate a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from headwater.connectors import Connector, Sink, Source, all_connectors
from headwater.loaders.judge import RESERVED
from headwater.loaders.keys import NAME, PipelineKeys, TableKeys, known_keys
from headwater.spec import Mode
from headwater.spec.pipeline import ExpectationKeys, FunctionKeys, SinkKeys, SourceKeys

Node = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
VARIABLE = {"$ref": "#/$defs/variable"}
PIPELINE_NAME = r"^[A-Za-z_-][A-Za-z0-9_-]*$"

_ABOUT = ("description", "examples", "default")
_NARROWING = ("enum", "const", "pattern", "format", "minLength", "maxLength")


def pipeline_schema() -> Node:
    """The schema of a pipeline file, with every installed connector."""
    return _Writer(all_connectors().values()).schema()


def keys_of(model: type[BaseModel]) -> dict[str, Node]:
    """The keys of one model, each with the schema of its value."""
    return _Writer(())._properties(model, model.__name__)


class _Lenient(GenerateJsonSchema):
    """A key of an external connector that Pydantic cannot describe accepts any value."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Node:
        return {}


class _Writer:
    """Writes one schema; shared parts go into `$defs`."""

    def __init__(self, connectors: Iterable[Connector]) -> None:
        self.connectors = tuple(connectors)
        self.defs: dict[str, Node] = {
            "variable": {
                "description": "An environment variable: `${NAME}` or `${NAME:-default}`.",
                "type": "string",
                "pattern": r"\$\{",
            }
        }

    def schema(self) -> Node:
        properties = self._properties(PipelineKeys, "pipeline")
        properties["name"] = _or_variable({**properties["name"], "pattern": PIPELINE_NAME})
        for part, wanted in self._parts():
            properties[part] = _named_things(properties[part], wanted)
        return {
            "$schema": DIALECT,
            "title": "Headwater pipeline",
            "description": "A pipeline of sources, tables and sinks.",
            **_closed(properties, _required(PipelineKeys)),
            "$defs": dict(sorted(self.defs.items())),
        }

    def _parts(self) -> Iterator[tuple[str, Node]]:
        function = _closed(self._properties(FunctionKeys, "function"), ())
        function["oneOf"] = [{"required": ["python"]}, {"required": ["java_class"]}]
        yield "functions", self._defined("function", function)
        yield "sources", self._connected("source", SourceKeys)
        yield "tables", self._table()
        yield "sinks", self._connected("sink", SinkKeys)

    def _table(self) -> Node:
        properties = self._properties(TableKeys, "table")
        names = {"propertyNames": {"pattern": NAME}}
        properties["expect"] |= {**names, "additionalProperties": self._expectation()}
        keys = _closed(properties, ())
        keys["oneOf"] = [
            {"required": ["sql"]},
            {"required": ["python"]},
            {"required": ["deduplicate", "reads"]},
        ]
        sql = {"type": "string", "description": "A SELECT over sources and tables of the pipeline."}
        return self._defined("table", {"anyOf": [sql, keys]})

    def _expectation(self) -> Node:
        keys = _closed(self._properties(ExpectationKeys, "expectation"), _required(ExpectationKeys))
        condition = {"type": "string", "minLength": 1, "description": "A condition; violations only warn."}
        return self._defined("expectation", {"anyOf": [condition, keys]})

    def _connected(self, side: Literal["source", "sink"], model: type[BaseModel]) -> Node:
        """A source or sink; its `connector` determines its keys."""
        common = self._properties(model, side)
        fitting = {each.name: part for each in self.connectors if (part := getattr(each, side)) is not None}
        cases = [
            {
                "if": {"properties": {"connector": {"const": name}}, "required": ["connector"]},
                "then": self._connector(side, name, part, model, common),
            }
            for name, part in fitting.items()
        ]
        connector = _or_variable({**common["connector"], "enum": list(fitting)})
        properties = {"connector": connector}
        return self._defined(
            side, {"type": "object", "properties": properties, "required": ["connector"], "allOf": cases}
        )

    def _connector(
        self, side: str, name: str, part: Source[Any] | Sink[Any], model: type[BaseModel], common: Node
    ) -> Node:
        own = self._properties(part.options, f"{side}.{name}")
        shared = {**common, "connector": {**common["connector"], "const": name}}
        if isinstance(part, Sink):
            about = {word: common["mode"][word] for word in _ABOUT if word in common["mode"]}
            modes = [mode.value for mode in Mode if mode.value in part.modes]
            shared["mode"] = _or_variable({**about, "type": "string", "enum": modes})
        keys = _closed({**shared, **own}, (*_required(model), *_required(part.options)))
        return self._defined(
            f"{side}.{name}", {"description": (part.options.__doc__ or "").strip().partition("\n")[0], **keys}
        )

    def _properties(self, model: type[BaseModel], owner: str) -> Node:
        """The keys of a model by the names that users write; nested models become separate `$defs`."""
        made = model.model_json_schema(ref_template=f"#/$defs/{owner}.{{model}}", schema_generator=_Lenient)
        nested: dict[str, Node] = made.get("$defs", {})
        written = {f"{owner}.{name}": node for name, node in nested.items()}
        defaults = model.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
        return {
            key: _with_default(self._value(made["properties"][key], written), defaults.get(key))
            for key in known_keys(model)
        }

    def _value(self, node: Node, nested: Mapping[str, Node]) -> Node:
        """A value as written in a file: a variable can replace anything that is not a free string."""
        return _or_variable(self._plain(node, nested))

    def _plain(self, node: Node, nested: Mapping[str, Node]) -> Node:
        plain = {word: each for word, each in node.items() if word not in ("title", "format", "$ref")}
        if "$ref" in node:
            plain |= self._referred(node["$ref"].removeprefix("#/$defs/"), nested)
        if "anyOf" in plain:
            plain = _flat(plain, [self._plain(each, nested) for each in plain["anyOf"]])
        if "items" in plain:
            plain["items"] = self._value(plain["items"], nested)
        inside = plain.get("additionalProperties")
        if isinstance(inside, dict) and "minLength" not in inside:
            # Spark settings and options are strings, but numbers and booleans can be written unquoted.
            plain["additionalProperties"] = {"type": ["string", "number", "boolean"]}
        return plain

    def _referred(self, name: str, nested: Mapping[str, Node]) -> Node:
        node = nested[name]
        if "enum" in node:
            return {"type": node["type"], "enum": node["enum"]}
        if name not in self.defs:
            self.defs[name] = {}  # a model can contain itself
            properties = {key: self._value(each, nested) for key, each in node["properties"].items()}
            keys = _closed(properties, node.get("required", ()))
            self.defs[name] = {"description": node.get("description", ""), **keys}
        return {"$ref": f"#/$defs/{name}"}

    def _defined(self, name: str, node: Node) -> Node:
        self.defs[name] = node
        return {"$ref": f"#/$defs/{name}"}


def _closed(properties: Node, required: Iterable[str]) -> Node:
    """An object with these keys and no others."""
    wanted = sorted(set(required), key=list(properties).index)
    node: Node = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**node, "required": wanted} if wanted else node


def _named_things(node: Node, wanted: Node) -> Node:
    """A mapping of names to sources, tables or sinks; it can be empty."""
    names = {"pattern": NAME, "not": {"enum": list(RESERVED)}}
    return {
        "description": node["description"],
        "type": ["object", "null"],
        "propertyNames": names,
        "additionalProperties": wanted,
    }


def _flat(node: Node, choices: list[Node]) -> Node:
    """One flat list of choices; the node collects their examples."""
    examples = [example for each in choices for example in each.get("examples", ())]
    flat = [inner for each in choices for inner in each.get("anyOf", [each])]
    bare = [{word: each[word] for word in each if word not in _ABOUT} for each in flat]
    return {**({"examples": examples} if examples else {}), **node, "anyOf": bare}


def _or_variable(node: Node) -> Node:
    """The node, or a variable if the node does not already accept any string."""
    about = {word: node[word] for word in _ABOUT if word in node}
    core = {word: each for word, each in node.items() if word not in _ABOUT}
    choices = core.get("anyOf", [core])
    if VARIABLE in choices or any(
        each.get("type") == "string" and not any(word in each for word in _NARROWING) for each in choices
    ):
        return node
    # Only scalars accept one: `${…}` cannot contain a list or a mapping.
    single = ("integer", "number", "boolean", "string")
    if not any(each.get("type") in single or "enum" in each for each in choices):
        return node
    return {**about, "anyOf": [*choices, VARIABLE]}


def _with_default(node: Node, default: object) -> Node:
    """The node with the default as users would write it, if the key has one."""
    stated = {word: each for word, each in node.items() if word != "default"}
    return stated if default is None else {**stated, "default": default}


def _required(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(
        field.alias or name
        for name, field in model.model_fields.items()
        if field.is_required() and (field.alias or name) in known_keys(model)
    )
