"""Avro and Protobuf types as Spark types, read from a schema file without Spark."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from headwater.connectors.decoding.executors import TIMESTAMP, WRAPPERS
from headwater.connectors.options import file_bytes, file_text
from headwater.errors import Entry, name_entries
from headwater.spec import Schema
from headwater.spec.schema import Column, quoted
from headwater.values import nearest

REGISTRY_UNREACHABLE = Entry(
    "Source `{name}`: could not reach the schema registry at {place}: {reason}.",
    "Check that the registry is running at this address and accepts `user` and `password`, then restart.",
    retryable=True,
)
REGISTRY_SCHEMA_UNAVAILABLE = Entry(
    "Query `{sink}` failed: could not get a schema from the schema registry at {place}: {reason}.",
    "Restart when the registry is available; the batch is retried. Rows are not quarantined for this reason.",
    retryable=True,
)
REGISTRY_DIR_NOT_FOUND = Entry(
    "Source `{name}`: schema directory {place} not found.",
    "Create the directory, and store each schema in a file `<id>.avsc`.",
)
AVRO_PACKAGE_MISSING = Entry(
    "Source `{name}`: the Python package for Avro is not installed.",
    "Install it on the driver and on all executors: `pip install 'headwater[avro]'`.",
)


ENTRIES = name_entries(globals())


AVRO_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "fixed": "binary",
    "enum": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("string", "uuid"): "string",
}
_WIDER = {frozenset({"int", "bigint"}): "bigint", frozenset({"float", "double"}): "double"}


def avro_columns(path: str) -> Schema:
    """The columns of the record in a schema file; ValueError if it is not a record."""
    try:
        declared = json.loads(file_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"schema file {path} is not valid JSON: {error}") from error
    try:
        return _Types().columns(declared)
    except (KeyError, TypeError) as error:
        raise ValueError(f"schema file {path} is not an Avro schema: {error!r}") from error
    except ValueError as error:
        raise ValueError(f"schema file {path}: {error}") from error


class _Types:
    """Reads one schema; a named type can be used again."""

    def __init__(self) -> None:
        self.named: dict[str, str | None] = {}

    def columns(self, declared: Any) -> Schema:
        if not isinstance(declared, dict) or declared.get("type") != "record":
            raise ValueError("expected a record")
        self._remember(declared, None)
        fields = declared["fields"]
        if not fields:
            raise ValueError("the record has no fields")
        return Schema(tuple(Column(field["name"], self.type(field["type"])) for field in fields))

    def type(self, declared: Any) -> str:
        if isinstance(declared, list):
            return self._union(declared)
        if isinstance(declared, str):
            return AVRO_PLAIN.get(declared) or self._again(declared)
        match declared["type"]:
            case "record":
                return self._record(declared)
            case "array":
                return f"array<{self.type(declared['items'])}>"
            case "map":
                return f"map<string,{self.type(declared['values'])}>"
            case "fixed" if declared["size"] == 0:
                raise ValueError(f"fixed type `{declared['name']}` has no bytes")
            case "enum" | "fixed":
                return self._remember(declared, self._simple(declared))
            case str():
                return self._simple(declared)
            case inner:
                return self.type(inner)

    def _record(self, declared: dict[str, Any]) -> str:
        self._remember(declared, None)
        if not declared["fields"]:
            raise ValueError(f"record `{declared['name']}` has no fields")
        fields = (f"{quoted(field['name'])}:{self.type(field['type'])}" for field in declared["fields"])
        return self._remember(declared, f"struct<{','.join(fields)}>")

    def _simple(self, declared: dict[str, Any]) -> str:
        plain, logical = declared["type"], declared.get("logicalType", "")
        if logical == "decimal":
            return f"decimal({declared['precision']},{declared.get('scale', 0)})"
        if logical in ("time-millis", "time-micros"):
            raise ValueError(f"logical type `{logical}` is not supported; remove `logicalType`")
        return _LOGICAL.get((plain, logical)) or AVRO_PLAIN.get(plain) or self._again(plain)

    def _union(self, branches: list[Any]) -> str:
        types = {self.type(branch) for branch in branches if branch != "null"}
        found = next(iter(types)) if len(types) == 1 else _WIDER.get(frozenset(types))
        if found is None:
            raise ValueError("a union of several types besides null is not supported")
        return found

    def _remember(self, declared: dict[str, Any], type_: str | None) -> str:
        name, space = declared["name"], declared.get("namespace")
        self.named[name] = type_
        self.named[f"{space}.{name}" if space else name] = type_
        return type_ or ""

    def _again(self, name: str) -> str:
        if name not in self.named:
            raise ValueError(f"unknown type `{name}`")
        found = self.named[name]
        if found is None:
            raise ValueError(f"recursive type `{name}` is not supported")
        return found


# Protobuf types as Spark types, read from a descriptor file without Spark.

_PROTOBUF_PLAIN = {
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "bigint",
    # Spark has no unsigned numbers, so they use the next wider type.
    FieldDescriptor.CPPTYPE_UINT32: "bigint",
    FieldDescriptor.CPPTYPE_UINT64: "decimal(20,0)",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_ENUM: "string",
}


def protobuf_columns(path: str, message: str) -> Schema:
    """The columns of a message in a descriptor file; ValueError if it is not found."""
    declared = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        declared.ParseFromString(file_bytes(path, "descriptor file"))
        for file in declared.file:
            pool.Add(file)
        found = pool.FindMessageTypeByName(message)
    except DecodeError as error:
        raise ValueError(
            f"{path} is not a descriptor file; create one with `protoc --include_imports -o FILE`"
        ) from error
    except TypeError as error:
        raise ValueError(
            f"descriptor file {path} is incomplete ({error}); create it with "
            "`protoc --include_imports -o FILE`"
        ) from error
    except KeyError as error:
        raise ValueError(_unknown(message, path, declared)) from error
    if not found.fields:
        raise ValueError(f"message type `{message}` has no fields")
    return Schema(tuple(Column(field.name, _type(field, (message,))) for field in found.fields))


def _unknown(message: str, path: str, declared: descriptor_pb2.FileDescriptorSet) -> str:
    names = [
        f"{file.package}.{each.name}".lstrip(".") for file in declared.file for each in file.message_type
    ]
    meant = nearest(message, names)
    hint = f"did you mean `{meant}`?" if meant else f"use one of {', '.join(names)}"
    found = f"message type `{message}` not found in descriptor file {path}"
    return f"{found}; {hint}" if names else f"{found}, which contains no messages"


def _type(field: FieldDescriptor, inside: tuple[str, ...]) -> str:
    message: Descriptor | None = field.message_type
    if message is not None and message.GetOptions().map_entry:
        # Its keys are the names in a JSON object, which are strings.
        return f"map<string,{_one(message.fields_by_name['value'], inside)}>"
    one = _one(field, inside)
    return f"array<{one}>" if field.is_repeated else one


def _one(field: FieldDescriptor, inside: tuple[str, ...]) -> str:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "binary"
    if field.message_type is None:
        return _PROTOBUF_PLAIN.get(field.cpp_type, "string")
    return _message(field.message_type, inside)


def _message(message: Descriptor, inside: tuple[str, ...]) -> str:
    if message.full_name == TIMESTAMP:
        return "timestamp"
    if message.full_name in WRAPPERS:
        return _one(message.fields_by_name["value"], inside)
    if message.full_name in inside:
        raise ValueError(
            f"recursive message type `{message.full_name}` is not supported; set `schema` to the columns"
        )
    within = (*inside, message.full_name)
    return f"struct<{','.join(f'{quoted(each.name)}:{_type(each, within)}' for each in message.fields)}>"
