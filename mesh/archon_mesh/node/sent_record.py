"""The request to a provider as it is recorded: address, API, size, and the body, packed against the recorded messages.

The bytes that were sent follow from the record, and its SHA-256 shows it. Not recorded are keys, parts of the address
that may be secrets, and the body of a request with files, whose contents no record has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from archon.json_text import json_object
from archon_mesh.core.masking import MASK, masked_arguments, masked_value
from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.packed_json import pack
from archon_mesh.llm.exchanges import SentRequest

NO_SECRETS: Final = frozenset({"api-version"})
"""Members of the query of an address that are kept; others may be keys."""


def sent_json(sent: SentRequest, messages: Sequence[ChatMessage], record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the recorded form. `messages` belong to the request of the agent, `record` is its recorded form: the
    source of the packed body."""
    data: dict[str, Any] = {
        "api": sent.api,
        "url": public_url(sent.url),
        "has_key": sent.has_key,
        "bytes": len(sent.content),
    }
    if any(file.data for message in messages for file in message.files):
        return data | {"files": True}
    masks = _masks(messages)
    try:
        body = _masked(sent.body, masks) if masks else sent.body
        packed = pack(body, record)
    except RecursionError:
        return data
    if masks:
        return data | {"masked": True, "body": packed}
    return data | {"sha256": sha256(sent.content).hexdigest(), "body": packed}


def public_url(url: str) -> str:
    """Returns an address without user and password, and with MASK in place of the members of its query that may be
    keys."""
    parts = urlsplit(url)
    members = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value if name in NO_SECRETS else MASK) for name, value in members]
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=urlencode(kept, safe="*")))


def _masks(messages: Iterable[ChatMessage]) -> list[tuple[Any, Any]]:
    """Returns the arguments of tool calls that have secrets by their names, as they were and masked, in each form in
    which APIs take them."""
    found: list[tuple[Any, Any]] = []
    for message in messages:
        for call in message.tool_calls:
            masked = masked_arguments(call.arguments_json)
            if masked != call.arguments_json:
                found.append((call.arguments_json, masked))
                if (value := json_object(call.arguments_json)) is not None:
                    found.append((value, masked_value(value)))
    return found


def _masked(value: Any, masks: Sequence[tuple[Any, Any]]) -> Any:
    for secret, masked in masks:
        if value == secret:
            return masked
    if isinstance(value, Mapping):
        return {key: _masked(member, masks) for key, member in value.items()}
    return [_masked(item, masks) for item in value] if isinstance(value, (list, tuple)) else value
