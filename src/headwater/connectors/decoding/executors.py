"""Decoders for formats that Spark cannot read safely. They run on the executors and are sent there by value.

The executors may not have Headwater, so this module imports nothing of it. A decoder converts bytes to a JSON
text, which Spark then parses, or returns the reason why it could not.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Hashable
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

# Writer schemas of Avro, made safe against corrupt bytes; sent to the executors by value.


class UnsafeSchema(Exception):
    """With this schema, a few bytes could use up the memory or the stack."""


def read_schema(declared: list[Any]) -> Any:
    """The last of several schemas; each can use the names of those before it."""
    import fastavro

    named: dict[str, Any] = {}
    for each in declared:
        schema = _safe(fastavro.parse_schema(each, named), named)
    return schema


class _Choices(list[Any]):
    """The types of a union or the symbols of an enum; fastavro counts negative indexes from the end.

    Its compiled reader adds the length to a negative index; with a length of zero, the index stays negative.
    """

    def __len__(self) -> int:
        return 0

    def __getitem__(self, number: Any) -> Any:
        if number < 0:
            raise IndexError(number)
        return list.__getitem__(self, number)


def _safe(schema: Any, named: dict[str, Any], inside: tuple[str, ...] = ()) -> Any:
    """The schema with guarded choices; UnsafeSchema if it must not be used.

    A named type that is used again was checked at its declaration.
    """
    if isinstance(schema, list):
        return _Choices(_safe(each, named, inside) for each in schema)
    if isinstance(schema, str):
        if schema in inside:
            raise UnsafeSchema(f"recursive type {schema} is not supported")
        return schema
    for field in schema.get("fields", ()):
        field["type"] = _safe(field["type"], named, (*inside, schema["name"]))
    if "symbols" in schema:
        schema["symbols"] = _Choices(schema["symbols"])
    for key in ("items", "values"):
        if key in schema:
            schema[key] = _safe(schema[key], named, inside)
    # If items take no bytes, five bytes can declare millions of them.
    if schema["type"] == "array" and not _takes_bytes(schema["items"], named):
        raise UnsafeSchema("an array whose items take no bytes is not supported")
    return schema


def _takes_bytes(schema: Any, named: dict[str, Any]) -> bool:
    """Whether each value of a type takes at least one byte."""
    if isinstance(schema, str):
        return _takes_bytes(named[schema], named) if schema in named else schema != "null"
    if isinstance(schema, list):
        return True
    if "fields" in schema:
        return any(_takes_bytes(field["type"], named) for field in schema["fields"])
    return bool(schema["type"] != "null" and schema.get("size") != 0)


MALFORMED, TYPE_MISMATCH, UNKNOWN_SCHEMA = "malformed", "type_mismatch", "unknown_schema_id"
REGISTRY_FAILED = "HW-REGISTRY-SCHEMA-UNAVAILABLE"
"""The prefix of a failure that the registry causes, not the row."""

Read = tuple[str | None, str | None, str | None]
"""A JSON text, or a reason and a detail."""

TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPED = ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
WRAPPERS = frozenset(f"google.protobuf.{each}Value" for each in _WRAPPED)
"""Messages that wrap one optional value."""

_SECONDS = 10
_PAUSES = (0.0, 0.5, 2.0)
_LATER = (408, 429)
"""Status codes below 500 that allow a retry."""
KNOWN, UNKNOWN = "known", "unknown"


class RegistryFailed(Exception):
    """The registry did not respond, or rejected the request; the rows may be valid."""


class UnknownSchema(Exception):
    """The registry has no schema with this ID."""


class RegistryServer:
    """The schemas of a registry, through the GET requests of its public API."""

    def __init__(self, url: str, user: str | None = None, password: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.login = base64.b64encode(f"{user}:{password}".encode()).decode() if user else None

    def __repr__(self) -> str:
        return f"RegistryServer({self.url})"

    def schema(self, number: int) -> dict[str, Any]:
        """The schema with an ID; UnknownSchema if it does not exist."""
        found = self._get(f"/schemas/ids/{number}")
        if found is None:
            raise UnknownSchema(number)
        return found

    def version(self, subject: str, version: int) -> dict[str, Any]:
        """A schema that another schema references."""
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        if found is None:
            raise RegistryFailed(f"referenced version {version} of {subject} not found")
        return found

    def ask(self) -> None:
        """Check that the registry responds; the schema does not need to exist."""
        self._get("/schemas/ids/1", pauses=(0.0,))

    def _get(self, path: str, pauses: tuple[float, ...] = _PAUSES) -> dict[str, Any] | None:
        reason = ""
        for pause in pauses:
            time.sleep(pause)
            try:
                return self._answer(path)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                if error.code < 500 and error.code not in _LATER:
                    raise RegistryFailed(f"HTTP {error.code} {error.reason}") from None
                reason = f"HTTP {error.code} {error.reason}"
            except (OSError, ValueError, http.client.HTTPException) as error:
                reason = str(getattr(error, "reason", error)).strip() or type(error).__name__
        raise RegistryFailed(reason)

    def _answer(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path, headers={"Accept": "application/json"})
        if self.login:
            # Not sent to the target of a redirect.
            request.add_unredirected_header("Authorization", f"Basic {self.login}")
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            found = json.load(answer)
        if not isinstance(found, dict):
            raise ValueError("the response is not a JSON object")
        return found


class RegistryFolder:
    """The schemas in a directory: those present at the start, and files that are added later."""

    def __init__(self, folder: str) -> None:
        self.url = folder
        files = Path(folder).glob("*.avsc")
        self._first = {path.stem: text for path in files if (text := _whole(path)) is not None}

    def schema(self, number: int) -> dict[str, Any]:
        """The schema with an ID; waits for a file that is still being written."""
        if str(number) in self._first:
            return {"schema": self._first[str(number)]}
        file = Path(self.url, f"{number}.avsc")
        for pause in _PAUSES:
            time.sleep(pause)
            if not file.exists():
                raise UnknownSchema(number)
            text = _whole(file)
            if text is not None:
                return {"schema": text}
        raise RegistryFailed(f"{file.name} is not valid JSON")

    def version(self, subject: str, version: int) -> dict[str, Any]:
        raise RegistryFailed("schemas in a directory cannot reference other schemas")


def _whole(file: Path) -> str | None:
    """The text of a schema file; None while it is not valid JSON because it is still being written."""
    try:
        text = file.read_text("utf-8")
        json.loads(text)
    except (OSError, ValueError):
        return None
    return text


class SchemaDecisions:
    """Whether the registry has a schema ID, decided once: queries that ask at different times must agree.

    With a shared directory, the first answer is stored there and applies to all queries and to retried
    batches. Without one, it applies for the lifetime of a worker.
    """

    def __init__(self, folder: str | None) -> None:
        self.folder, self._start = folder, uuid4().hex

    def found(self, number: int) -> str | None:
        """The decision, if there is one."""
        if self.folder is None:
            return _kept().get((self._start, number))
        try:
            return Path(self.folder, str(number)).read_text("utf-8")
        except FileNotFoundError:
            return None

    def decide(self, number: int, answer: str) -> str:
        """The valid answer: this one, or an earlier one."""
        if self.folder is None:
            decided: str = _kept().setdefault((self._start, number), answer)
            return decided
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        note, made = Path(self.folder, str(number)), Path(self.folder, f".{uuid4().hex}")
        made.write_text(answer, "utf-8")
        try:
            # The file appears atomically, with its content.
            os.link(made, note)
        except FileExistsError:
            pass
        finally:
            made.unlink()
        return note.read_text("utf-8")


Registry = RegistryServer | RegistryFolder


def avro(schema: str) -> Callable[[bytes | None], Read]:
    """Decodes Avro with one schema.

    Spark's from_avro is not safe: a length in corrupt bytes makes it allocate gigabytes and crash.
    """

    def read(data: bytes | None) -> Read:
        if data is None:
            return None, None, None
        writer = _once(("writer", schema), lambda: read_schema([json.loads(schema)]))
        return _avro_text(data, 0, writer, None, "the schema")

    return read


def avro_by_number(
    registry: Registry, wanted: str | None, decisions: SchemaDecisions
) -> Callable[[bytes | None], Read]:
    """Decodes Avro with a schema ID (a zero byte and four bytes) into the `wanted` schema."""

    def read(data: bytes | None) -> Read:
        if data is None:
            return None, None, None
        if len(data) < 5 or data[0] != 0:
            return None, MALFORMED, "does not start with a schema ID"
        number = int.from_bytes(data[1:5], "big")
        try:
            writer = _writer(registry, number, decisions)
        except UnknownSchema:
            return None, UNKNOWN_SCHEMA, f"{number}"
        except RegistryFailed as error:
            raise RuntimeError(f"{REGISTRY_FAILED}\t{registry.url}\t{error}") from None
        if isinstance(writer, str):
            return None, MALFORMED, f"schema {number}: {writer}"
        import fastavro

        reader = _once(wanted, lambda: fastavro.parse_schema(json.loads(wanted))) if wanted else None
        return _avro_text(data, 5, writer, reader, f"schema {number}")

    return read


def _avro_text(data: bytes, start: int, writer: Any, reader: Any, name: str) -> Read:
    import fastavro
    from fastavro.read import SchemaResolutionError

    stream = BytesIO(data)
    stream.seek(start)
    try:
        found = fastavro.schemaless_reader(stream, writer, reader)
    except SchemaResolutionError as error:
        return None, TYPE_MISMATCH, f"{name} does not match: {' '.join(str(error).split())[:200]}"
    except Exception:  # noqa: BLE001 - random bytes can make the reader raise any exception
        return None, MALFORMED, f"not a record of {name}"
    if stream.tell() != len(data):
        return None, MALFORMED, "extra bytes after the record"
    return json.dumps(found, default=_plain), None, None


def _writer(registry: Registry, number: int, decisions: SchemaDecisions) -> Any:
    """The schema with an ID for fastavro, or why it is unusable; requested once per process."""

    def ask() -> Any:
        if decisions.found(number) == UNKNOWN:
            raise UnknownSchema(number)
        try:
            found = registry.schema(number)
        except UnknownSchema:
            if decisions.decide(number, UNKNOWN) == KNOWN:
                raise RegistryFailed(f"schema {number} no longer exists") from None
            raise
        if decisions.decide(number, KNOWN) == UNKNOWN:
            raise UnknownSchema(number)
        kind = found.get("schemaType") or "AVRO"
        return f"type is {kind}, expected AVRO" if kind != "AVRO" else _resolved(registry, found)

    return _once((registry.url, decisions.folder, number), ask)


def _resolved(registry: Registry, found: dict[str, Any]) -> Any:
    """A schema with those that it references, or why it is invalid."""
    import fastavro

    try:
        return read_schema([*_references(registry, found), json.loads(found["schema"])])
    except UnsafeSchema as error:
        return str(error)
    except (ValueError, KeyError, TypeError, RecursionError, fastavro.schema.SchemaParseException) as error:
        return f"invalid schema ({type(error).__name__})"


def _references(registry: Registry, found: dict[str, Any]) -> list[Any]:
    """The schemas that a schema references, innermost first."""
    schemas = []
    for each in found.get("references") or ():
        inner = registry.version(each["subject"], each["version"])
        schemas += [*_references(registry, inner), json.loads(inner["schema"])]
    return schemas


def _once(name: Hashable, make: Callable[[], Any]) -> Any:
    kept = _kept()
    if name not in kept:
        kept[name] = make()
    return kept[name]


def _kept() -> dict[Any, Any]:
    """A cache that outlives a task; this module is sent by value and created again for each task."""
    name = "_headwater_schemas"
    kept: dict[Any, Any] = vars(sys.modules.setdefault(name, ModuleType(name))).setdefault("kept", {})
    return kept


def _plain(value: Any) -> Any:
    """An Avro value without a JSON type, in the form that Spark reads."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(type(value).__name__)


def protobuf(descriptors: bytes, message: str) -> Callable[[bytes | None], Read]:
    """Decodes a message type of a descriptor file."""

    def read(data: bytes | None) -> Read:
        from google.protobuf.message import DecodeError

        if data is None:
            return None, None, None
        try:
            return json.dumps(_fields(_message(descriptors, message).FromString(data))), None, None
        except (DecodeError, UnicodeDecodeError):
            return None, MALFORMED, f"not a message of type {message}"
        except (ValueError, OverflowError) as error:
            return None, TYPE_MISMATCH, str(error)

    return read


def _message(descriptors: bytes, message: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    def find() -> Any:
        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))

    return _once((descriptors, message), find)


def _fields(message: Any) -> dict[str, Any]:
    """The fields of a message, without optional fields that are not set."""
    return {
        field.name: _field(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if field.is_repeated or not field.has_presence or message.HasField(field.name)
    }


def _field(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        # Names in a JSON object are strings; booleans are lower case.
        keys = (str(key).lower() if isinstance(key, bool) else str(key) for key in value)
        return dict(zip(keys, (_one(inner, each) for each in value.values()), strict=True))
    return [_one(field, each) for each in value] if field.is_repeated else _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if field.message_type is None:
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return value.ToDatetime(tzinfo=UTC).isoformat()
    if name in WRAPPERS:
        return _one(field.message_type.fields_by_name["value"], value.value)
    return _fields(value)
