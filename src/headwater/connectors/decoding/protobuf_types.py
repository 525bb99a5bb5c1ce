"""Protobuf's types in Spark's words, told from a descriptor file without Spark."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from headwater.connectors.decoding.reading import TIMESTAMP, WRAPPERS
from headwater.spec import Schema
from headwater.spec.schema import Column
from headwater.spec.types import quoted
from headwater.values import nearest

_PLAIN = {
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "bigint",
    # Spark has no unsigned numbers, so the next wider type holds them.
    FieldDescriptor.CPPTYPE_UINT32: "bigint",
    FieldDescriptor.CPPTYPE_UINT64: "decimal(20,0)",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_ENUM: "string",
}


def descriptor_bytes(path: str) -> bytes:
    """The bytes of a descriptor file; ValueError where it can't be read."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"there is no descriptor file {path}") from error
    except OSError as error:
        raise ValueError(f"the descriptor file {path} can't be read: {error}") from error


def protobuf_columns(path: str, message: str) -> Schema:
    """The columns of a message of a descriptor file; ValueError where it has none."""
    declared = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        declared.ParseFromString(descriptor_bytes(path))
        for file in declared.file:
            pool.Add(file)
        found = pool.FindMessageTypeByName(message)
    except DecodeError as error:
        raise ValueError(
            f"{path} is no descriptor file; make one with `protoc --include_imports -o FILE`"
        ) from error
    except TypeError as error:
        raise ValueError(
            f"the descriptor file {path} is not whole ({error}); make it with "
            "`protoc --include_imports -o FILE`"
        ) from error
    except KeyError as error:
        raise ValueError(_unknown(message, path, declared)) from error
    if not found.fields:
        raise ValueError(f"the message `{message}` has no fields")
    return Schema(tuple(Column(field.name, _type(field, (message,))) for field in found.fields))


def _unknown(message: str, path: str, declared: descriptor_pb2.FileDescriptorSet) -> str:
    names = [
        f"{file.package}.{each.name}".lstrip(".") for file in declared.file for each in file.message_type
    ]
    meant = nearest(message, names)
    hint = f"did you mean `{meant}`?" if meant else f"it has {', '.join(names) or 'none'}"
    return f"the descriptor file {path} has no message `{message}`; {hint}"


def _type(field: FieldDescriptor, inside: tuple[str, ...]) -> str:
    message: Descriptor | None = field.message_type
    if message is not None and message.GetOptions().map_entry:
        # Its keys are the names in an object of JSON, which are texts.
        return f"map<string,{_one(message.fields_by_name['value'], inside)}>"
    one = _one(field, inside)
    return f"array<{one}>" if field.is_repeated else one


def _one(field: FieldDescriptor, inside: tuple[str, ...]) -> str:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "binary"
    if field.message_type is None:
        return _PLAIN.get(field.cpp_type, "string")
    return _message(field.message_type, inside)


def _message(message: Descriptor, inside: tuple[str, ...]) -> str:
    if message.full_name == TIMESTAMP:
        return "timestamp"
    if message.full_name in WRAPPERS:
        return _one(message.fields_by_name["value"], inside)
    if message.full_name in inside:
        raise ValueError(
            f"`{message.full_name}` has itself inside, which columns can't have; write the columns that you "
            "want under `schema:`"
        )
    within = (*inside, message.full_name)
    return f"struct<{','.join(f'{quoted(each.name)}:{_type(each, within)}' for each in message.fields)}>"
