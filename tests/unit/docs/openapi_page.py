"""Writes the OpenAPI document of the HTTP gateway from the contract: `python -m tests.unit.docs.openapi_page`.

The comments of the proto files are the descriptions. https://spec.openapis.org/oas/v3.1.1.html,
https://protobuf.dev/programming-guides/json/.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2

from archon.security.policy import POLICY
from archon_services.gateway.descriptors import FILES
from archon_services.gateway.failures import HTTP_STATUS, connect_code
from archon_services.gateway.openapi.room import FILE
from tests.unit.docs.openapi_rooms import room_paths

PROTOS: Final = Path(__file__).parents[3] / "protos"

Schema = dict[str, Any]
Field = descriptor_pb2.FieldDescriptorProto
Message = descriptor_pb2.DescriptorProto

_WELL_KNOWN: Final[dict[str, Schema]] = {
    ".google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    ".google.protobuf.Duration": {"type": "string", "pattern": r"^-?\d+(\.\d{1,9})?s$", "examples": ["30s"]},
    ".google.protobuf.Struct": {"type": "object"},
    ".google.protobuf.Empty": {"type": "object"},
}
_INTEGER: Final[Schema] = {"type": "integer", "format": "int32"}
_LONG: Final[Schema] = {"type": "string", "format": "int64", "pattern": r"^-?\d+$"}
_SCALARS: Final[dict[int, Schema]] = {
    Field.TYPE_STRING: {"type": "string"},
    Field.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    Field.TYPE_BOOL: {"type": "boolean"},
    Field.TYPE_DOUBLE: {"type": "number", "format": "double"},
    Field.TYPE_FLOAT: {"type": "number", "format": "float"},
    **dict.fromkeys((Field.TYPE_INT32, Field.TYPE_UINT32, Field.TYPE_SINT32), _INTEGER),
    **dict.fromkeys((Field.TYPE_INT64, Field.TYPE_UINT64, Field.TYPE_SINT64), _LONG),
}

DESCRIPTION: Final = """RPCs of the mesh over HTTP, with JSON (the Connect protocol), and streams of server-sent events.
Calls need a token of the mesh, or of its OpenID provider, in the header Authorization; browsers have a session. Streams of the
RPCs themselves are served over Connect and GRPC-Web. Errors have a code, a message, and typed details."""


class Contract:
    """The proto files with their comments."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "contract.binpb"
            names = [module.DESCRIPTOR.name for module in FILES]
            command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", "--include_imports"]
            command += ["--include_source_info", f"--descriptor_set_out={file}", *names]
            subprocess.run(command, check=True, cwd=PROTOS)
            self.files = descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes()).file
        self.comments: dict[str, str] = {}
        self.messages: dict[str, Message] = {}
        self.enums: dict[str, descriptor_pb2.EnumDescriptorProto] = {}
        for each in self.files:
            self._read(each)

    def _read(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        texts = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}

        def note(name: str, path: tuple[int, ...]) -> None:
            self.comments[name] = " ".join(texts.get(path, "").split())

        def message(found: Message, prefix: str, path: tuple[int, ...]) -> None:
            name = f"{prefix}.{found.name}"
            self.messages[name] = found
            note(name, path)
            for number, field in enumerate(found.field):
                note(f"{name}.{field.name}", (*path, 2, number))
            for number, nested in enumerate(found.nested_type):
                message(nested, name, (*path, 3, number))
            for nested_enum in found.enum_type:
                self.enums[f"{name}.{nested_enum.name}"] = nested_enum

        package = f".{file.package}"
        for number, found in enumerate(file.message_type):
            message(found, package, (4, number))
        for number, enum in enumerate(file.enum_type):
            self.enums[f"{package}.{enum.name}"] = enum
            note(f"{package}.{enum.name}", (5, number))
        for number, service in enumerate(file.service):
            note(f"{package}.{service.name}", (6, number))
            for place, method in enumerate(service.method):
                note(f"{package}.{service.name}.{method.name}", (6, number, 2, place))


class Document:
    """The document, with the schemas that its operations reach."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.schemas: dict[str, Schema] = {}

    def reference(self, name: str) -> Schema:
        """Returns the schema of a message or an enum of the contract."""
        if (known := _WELL_KNOWN.get(name)) is not None:
            return known
        short = name.lstrip(".")
        if short not in self.schemas:
            self.schemas[short] = {}
            is_enum = name in self.contract.enums
            self.schemas[short] = self._enum(name) if is_enum else self._message(name)
        return {"$ref": f"#/components/schemas/{short}"}

    def _enum(self, name: str) -> Schema:
        values = [value.name for value in self.contract.enums[name].value]
        return _described({"type": "string", "enum": values}, self.contract.comments.get(name, ""))

    def _message(self, name: str) -> Schema:
        found = self.contract.messages[name]
        properties = {}
        for field in found.field:
            properties[field.json_name] = _described(
                self._field(found, field), self.contract.comments[f"{name}.{field.name}"]
            )
        schema: Schema = {"type": "object", "properties": properties}
        choices = [
            [field.json_name for field in found.field if field.HasField("oneof_index") and field.oneof_index == number]
            for number in range(len(found.oneof_decl))
            if not any(field.proto3_optional and field.oneof_index == number for field in found.field)
        ]
        comment = self.contract.comments[name]
        for choice in choices:
            comment += f" At most one of {', '.join(choice)} is set."
        return _described(schema, comment.strip())

    def _field(self, message: Message, field: Field) -> Schema:
        nested = {each.name: each for each in message.nested_type}
        entry = nested.get(field.type_name.rpartition(".")[2]) if field.type == Field.TYPE_MESSAGE else None
        if entry is not None and entry.options.map_entry:
            return {"type": "object", "additionalProperties": self._field(entry, entry.field[1])}
        if field.type in (Field.TYPE_MESSAGE, Field.TYPE_ENUM):
            single = self.reference(field.type_name)
        else:
            single = _SCALARS[field.type]
        return {"type": "array", "items": single} if field.label == Field.LABEL_REPEATED else single

    def operations(self) -> Iterator[tuple[str, Schema]]:
        """Yields the path and the operation of each unary RPC."""
        for file in self.contract.files:
            for service in file.service:
                for method in service.method:
                    path = f"/{file.package}.{service.name}/{method.name}"
                    if path in POLICY and not (method.client_streaming or method.server_streaming):
                        comment = self.contract.comments[f".{file.package}.{service.name}.{method.name}"]
                        yield path, self._operation(path, service.name, method, comment)

    def _operation(self, path: str, service: str, method: descriptor_pb2.MethodDescriptorProto, comment: str) -> Schema:
        kinds = ", ".join(sorted(kind.value for kind in POLICY[path]))
        return {
            "operationId": f"{service}.{method.name}",
            "tags": [service],
            "summary": comment.partition(". ")[0].rstrip(".") + ".",
            "description": f"{comment} Callers: {kinds}.",
            "parameters": [{"$ref": "#/components/parameters/timeout"}],
            "requestBody": {"required": True, "content": _json(self.reference(method.input_type))},
            "responses": {
                "200": {"description": "The response.", "content": _json(self.reference(method.output_type))},
                "default": {"$ref": "#/components/responses/error"},
            },
        }


def _described(schema: Schema, comment: str) -> Schema:
    return {**schema, "description": comment} if comment else schema


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _events(operation: str, summary: str, description: str, parameters: list[Schema]) -> Schema:
    resume = {"$ref": "#/components/parameters/lastEventId"}
    after = {"$ref": "#/components/parameters/after"}
    return {
        "operationId": operation,
        "tags": ["Events"],
        "summary": summary,
        "description": description,
        "parameters": [*parameters, resume, after],
        "responses": {
            "200": {"description": "The stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
            "204": {"description": "The run has ended, and the client has all of its events."},
            "default": {"$ref": "#/components/responses/error"},
        },
    }


def _own_paths() -> dict[str, Schema]:
    run = {"name": "runId", "in": "path", "required": True, "schema": {"type": "string"}, "description": "The run."}
    session = {
        "type": "object",
        "properties": {
            "identity": {"type": "string"},
            "tenant": {"type": "string"},
            "kind": {"type": "string", "description": "Empty if the mesh needs no tokens."},
            "expires": {"type": "integer", "description": "Seconds since the epoch; 0: never."},
        },
    }
    return {
        "/events/runs/{runId}": {
            "get": _events(
                "watchRun",
                "Streams the events of a run.",
                "Each event is a RunEvent as JSON; the id of a durable event is its sequence number. The event `end` is "
                "the last one, the event `failure` has an error.",
                [run],
            )
        },
        "/events/registry": {
            "get": _events(
                "watchRegistry",
                "Streams the instances and the graph of the caller's tenant, and their changes.",
                "Each event is a WatchResponse of the registry as JSON; its id is the registry's revision.",
                [],
            )
        },
        "/session": {
            "get": {
                "operationId": "getSession",
                "tags": ["Session"],
                "summary": "Says who calls.",
                "responses": {
                    "200": {"description": "The caller.", "content": _json(session)},
                    "default": {"$ref": "#/components/responses/error"},
                },
            }
        },
        **room_paths(),
        "/healthz": {
            "get": {
                "operationId": "getHealth",
                "tags": ["Health"],
                "summary": "Says whether the gateway serves.",
                "security": [],
                "responses": {
                    "200": {"description": "It does.", "content": _json({"type": "object"})},
                    "503": {"description": "It does not.", "content": _json({"type": "object"})},
                },
            }
        },
    }


def _components(schemas: dict[str, Schema]) -> Schema:
    error = {
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "string", "enum": [connect_code(code) for code in HTTP_STATUS]},
            "message": {"type": "string"},
            "details": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "value"],
                    "properties": {
                        "type": {"type": "string", "examples": ["google.rpc.ErrorInfo"]},
                        "value": {"type": "string", "contentEncoding": "base64"},
                        "debug": {"type": "object"},
                    },
                },
            },
        },
    }
    return {
        "schemas": {"Error": error, **dict(sorted(schemas.items()))},
        "responses": {"error": {"description": "An error.", "content": _json({"$ref": "#/components/schemas/Error"})}},
        "parameters": {
            "timeout": _parameter(
                "Connect-Timeout-Ms", "header", "Milliseconds that the call may take.", r"^\d{1,10}$"
            ),
            "lastEventId": _parameter("Last-Event-ID", "header", "The number of the last event.", r"^\d{1,19}$"),
            "after": _parameter("after", "query", "As Last-Event-ID, which takes precedence.", r"^\d{1,19}$"),
        },
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            "session": {"type": "apiKey", "in": "cookie", "name": "archon_session"},
        },
    }


def _parameter(name: str, place: str, description: str, pattern: str) -> Schema:
    return {"name": name, "in": place, "description": description, "schema": {"type": "string", "pattern": pattern}}


def document() -> Schema:
    """Returns the OpenAPI document."""
    built = Document(Contract())
    paths = {path: {"post": operation} for path, operation in built.operations()}
    built.reference(".archon.api.orchestrator.v1.RunEvent")
    built.reference(".archon.api.registry.v1.WatchResponse")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Archon",
            "version": "1",
            "description": " ".join(DESCRIPTION.split()),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": {**_own_paths(), **paths},
        "components": _components(built.schemas),
    }


def text() -> str:
    """Returns the document as the gateway serves it."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
