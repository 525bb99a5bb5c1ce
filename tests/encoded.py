"""Messages in binary formats, and the files that say how to read them."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

WEIGHT = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
BIRD = {
    "type": "record",
    "name": "Bird",
    "namespace": "field",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "kind", "type": ["null", "string"], "default": None},
        {"name": "weight", "type": ["null", WEIGHT]},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip


def avro(schema: Any, record: dict[str, Any]) -> bytes:
    """A record without its schema."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def numbered(number: int, payload: bytes) -> bytes:
    """Bytes with the number of their schema before them."""
    return b"\0" + number.to_bytes(4, "big") + payload


def descriptors() -> bytes:
    """A descriptor file with `field.Bird`, as `protoc --include_imports` makes it."""
    file = descriptor_pb2.FileDescriptorProto(name="bird.proto", package="field", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    bird = file.message_type.add(name="Bird")
    kinds = (
        ("id", 1, "TYPE_INT64", None),
        ("kind", 2, "TYPE_STRING", None),
        ("ringed", 3, "TYPE_UINT64", None),
        ("seen", 4, "TYPE_MESSAGE", ".google.protobuf.Timestamp"),
        ("photo", 5, "TYPE_BYTES", None),
        ("notes", 6, "TYPE_STRING", None),
        ("state", 7, "TYPE_ENUM", ".field.State"),
    )
    for name, number, type_, of in kinds:
        label = "LABEL_REPEATED" if name == "notes" else "LABEL_OPTIONAL"
        bird.field.add(name=name, number=number, type=type_, label=label, type_name=of)
    state = file.enum_type.add(name="State")
    state.value.add(name="HERE", number=0)
    state.value.add(name="AWAY", number=1)
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    return descriptor_pb2.FileDescriptorSet(file=[times, file]).SerializeToString()


def maps() -> bytes:
    """A descriptor file with `field.Maps`: two maps to int32, from text and from int32."""
    file = descriptor_pb2.FileDescriptorProto(name="maps.proto", package="field", syntax="proto3")
    message = file.message_type.add(name="Maps")
    for number, (name, key) in enumerate((("by_name", "TYPE_STRING"), ("by_number", "TYPE_INT32")), 1):
        entry = message.nested_type.add(name="".join(map(str.title, name.split("_"))) + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label="LABEL_OPTIONAL")
        entry.field.add(name="value", number=2, type="TYPE_INT32", label="LABEL_OPTIONAL")
        of = f".field.Maps.{entry.name}"
        message.field.add(name=name, number=number, type="TYPE_MESSAGE", label="LABEL_REPEATED", type_name=of)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def bird(**fields: Any) -> bytes:
    """A message of `field.Bird`."""
    return message(descriptors(), "field.Bird", **fields)


def message(descriptors: bytes, name: str, **fields: Any) -> bytes:
    """A message of a descriptor file."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return bytes(made(**fields).SerializeToString())


def descriptor_file(folder: Path) -> Path:
    """The descriptor file on disk."""
    path = folder / "birds.desc"
    path.write_bytes(descriptors())
    return path
