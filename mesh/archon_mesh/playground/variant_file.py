"""Variants as files, in YAML or JSON: the whole prompt, so that a file needs neither its run nor a mesh."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from archon.errors import FailedPrecondition, InvalidArgument, NotFound
from archon.private_files import replace_private_file
from archon_mesh.core.messages import PROVIDER_STATE
from archon_mesh.llm import ModelRequest
from archon_mesh.llm.wire import tool_to_wire
from archon_mesh.plain_yaml import YamlError, plain_yaml
from archon_mesh.playground.request_json import message_json, to_request
from archon_mesh.playground.variant import Origin, Variant

VERSION: Final = 1
MAX_BYTES: Final = 64 * 1024**2
"""Bytes of a file."""

_VERSION_KEY: Final = "archon_variant"
_REQUEST_KEYS: Final = ("temperature", "max_tokens", "is_json", "output_schema", "messages", "tools")
_KEYS: Final = frozenset({_VERSION_KEY, "model", "origin", "system", "input", *_REQUEST_KEYS})
_BREAKS: Final = re.compile("[\\r\\x85\\u2028\\u2029]")
"""Ends of lines that YAML would read as newlines outside of quotes."""

_MARKS: Final = ("system", "input")
"""Keys with the number of a message, from 1."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


def _text_node(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def variant_text(variant: Variant) -> str:
    """Returns a variant as YAML."""
    return yaml.dump(variant_document(variant), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def variant_document(variant: Variant) -> dict[str, Any]:
    """Returns a variant as a JSON object."""
    request, origin = variant.request, variant.origin
    document: dict[str, Any] = {_VERSION_KEY: VERSION, "model": variant.model}
    if origin.run_id:
        document["origin"] = {
            "run_id": origin.run_id,
            "role": origin.role,
            "task_id": origin.task_id,
            "call": origin.call,
        }
    for mark in _MARKS:
        if (index := getattr(variant, mark)) is not None:
            document[mark] = index + 1
    for key in ("temperature", "max_tokens"):
        if (value := getattr(request, key)) is not None:
            document[key] = value
    if request.is_json:
        document["is_json"] = True
    if request.output_schema is not None:
        document["output_schema"] = dict(request.output_schema)
    document["messages"] = [_message(request, index) for index in range(len(request.messages))]
    if request.tools:
        document["tools"] = [tool_to_wire(tool) for tool in request.tools]
    return document


def parse_variant(text: str, name: str = "the variant") -> Variant:
    """Reads a variant; `name` is its name in errors. Raises InvalidArgument for any other text, FailedPrecondition if
    it has files without contents."""
    try:
        document = json.loads(text) if text.lstrip()[:1] == "{" else plain_yaml(text.encode())
    except (YamlError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} is not YAML: {error}") from None
    if not isinstance(document, dict) or _VERSION_KEY not in document:
        raise InvalidArgument(f"{name} is no variant: it has no `{_VERSION_KEY}`")
    if document[_VERSION_KEY] != VERSION:
        raise InvalidArgument(f"{name} has version {document[_VERSION_KEY]!r}; this version of Archon reads {VERSION}")
    if unknown := sorted(map(str, document.keys() - _KEYS)):
        raise InvalidArgument(f"{name} has the unknown key {unknown[0]!r}; the keys are {', '.join(sorted(_KEYS))}")
    model = document.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidArgument(f"{name} names no model")
    if not isinstance(document.get("messages"), list) or not document["messages"]:
        raise InvalidArgument(f"{name} has no messages")
    try:
        request = to_request({key: document[key] for key in _REQUEST_KEYS if key in document})
    except (InvalidArgument, FailedPrecondition) as error:
        raise type(error)(f"{name}: {error.message}") from None
    system, found = (_index(document, mark, len(request.messages), name) for mark in _MARKS)
    return Variant(model, request, _origin(document.get("origin"), name), system, found)


def read_variant(path: Path | str) -> Variant:
    """Reads the file of a variant. Raises NotFound if it cannot be read, else as `parse_variant`."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotFound(f"cannot read the variant {path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise InvalidArgument(f"{path} has more than {MAX_BYTES:,} bytes")
    try:
        return parse_variant(content.decode(), str(path))
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path} is not UTF-8") from None


def write_variant(variant: Variant, path: Path | str) -> None:
    """Writes a variant: as JSON if the name ends with .json, else as YAML. The file is private, as the contents of
    prompts are. Raises OSError."""
    path = Path(path)
    is_json = path.suffix == ".json"
    text = (
        json.dumps(variant_document(variant), ensure_ascii=False, indent=2) + "\n" if is_json else variant_text(variant)
    )
    replace_private_file(path, text)


def _message(request: ModelRequest, index: int) -> dict[str, Any]:
    message = request.messages[index]
    state = message.metadata.get(PROVIDER_STATE)
    return message_json(message) | ({"metadata": {PROVIDER_STATE: state}} if state else {})


def _index(document: Mapping[str, Any], key: str, count: int, name: str) -> int | None:
    number = document.get(key)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= count:
        raise InvalidArgument(f"{name}: {key} must be the number of a message, from 1 to {count}, not {number!r}")
    return number - 1


def _origin(value: Any, name: str) -> Origin:
    if value is None:
        return Origin()
    if not isinstance(value, dict):
        raise InvalidArgument(f"{name}: origin is no object")
    run_id, role, task_id = (str(value.get(key, "")) for key in ("run_id", "role", "task_id"))
    call = value.get("call", 0)
    return Origin(run_id, role, task_id, call if isinstance(call, int) else 0)
