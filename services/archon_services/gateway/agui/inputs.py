"""The input of an AG-UI run, as a front end sends it: read, and held to limits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

from ag_ui.core import Message, RunAgentInput
from pydantic import ValidationError

from archon.errors import FieldViolation, InvalidArgument

MAX_ID: Final = 256
"""Characters of the id of a thread and of a run."""

MAX_MESSAGE_ID: Final = 1_024
"""Characters of the id of a message."""

MAX_MESSAGES: Final = 5_000
MAX_CONTEXT: Final = 64
MAX_TOOLS: Final = 32
MAX_RESUME: Final = 64
"""Entries of the lists of an input."""

_LEGACY: Final = {"image": "image", "audio": "audio", "video": "video"}
"""By the first half of a media type: the type of the part that replaces a part `binary` of earlier versions."""


def read_input(body: bytes) -> RunAgentInput:
    """Returns the input that the body of a request is. Raises InvalidArgument, without content of the input."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidArgument("the body of the request is not JSON") from None
    if not isinstance(data, dict):
        raise InvalidArgument("the body of the request is no JSON object")
    if b"\\ud" in body.lower():  # half of a pair of surrogates is no text, and no answer could hold it
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InvalidArgument("the body of the request is not valid Unicode") from None
    for message in _objects(data.get("messages")):
        message["content"] = [_modern(part) for part in _list(message["content"])] or message["content"]
    try:
        read = RunAgentInput.model_validate(data)
    except (ValidationError, RecursionError) as raised:
        raise _invalid(raised) from None
    _check(read)
    return read


def is_modern(source: RunAgentInput) -> bool:
    """Whether the front end knows version 1.0 of the protocol, with sub-agents and cancelled runs: it says so."""
    return bool(source.protocol_version)


def tag_of(source: RunAgentInput) -> str:
    """Returns the prefix of the ids of all messages of this run: by it the run finds its own messages in the history
    that a front end sends again."""
    return hashlib.sha256(json.dumps([source.thread_id, source.run_id]).encode()).hexdigest()[:16]


def history_of(source: RunAgentInput) -> list[Message]:
    """Returns the messages of an input without the ones that an earlier stream of the same run has brought."""
    own = f"{tag_of(source)}."
    return [message for message in source.messages if not message.id.startswith(own)]


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    for each in _list(value):
        if isinstance(each, dict) and isinstance(each.get("content"), list):
            yield each


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _modern(part: Any) -> Any:
    """Returns a part; one of the type `binary`, which front ends before 1.0 send, in the form of 1.0."""
    if not isinstance(part, dict) or part.get("type") != "binary":
        return part
    media_type = str(part.get("mimeType") or "application/octet-stream")
    source = {"type": "data", "value": part["data"]} if part.get("data") else {"type": "url", "value": part.get("url")}
    kind = _LEGACY.get(media_type.partition("/")[0], "document")
    metadata = {"filename": part["filename"]} if part.get("filename") else None
    return {"type": kind, "source": {**source, "mimeType": media_type}, "metadata": metadata}


def _invalid(raised: ValidationError | RecursionError) -> InvalidArgument:
    if isinstance(raised, RecursionError):
        return InvalidArgument("the input is nested too deep")
    violations = [
        FieldViolation(".".join(map(str, error["loc"])) or "input", error["msg"])
        for error in raised.errors(include_url=False, include_input=False, include_context=False)[:10]
    ]
    text = "; ".join(f"{each.field}: {each.description}" for each in violations)
    return InvalidArgument(f"the input is no RunAgentInput: {text}", field_violations=violations)


def _check(source: RunAgentInput) -> None:
    violations = list(_violations(source))
    if violations:
        text = "; ".join(f"{each.field}: {each.description}" for each in violations)
        raise InvalidArgument(text, field_violations=violations)


def _violations(source: RunAgentInput) -> Iterator[FieldViolation]:
    for name, text in (("threadId", source.thread_id), ("runId", source.run_id)):
        if not text.strip() or len(text) > MAX_ID or not text.isprintable():
            yield FieldViolation(name, f"1 to {MAX_ID} printable characters")
    limits: tuple[tuple[str, list[Any] | None, int], ...] = (
        ("messages", source.messages, MAX_MESSAGES),
        ("context", source.context, MAX_CONTEXT),
        ("tools", source.tools, MAX_TOOLS),
        ("resume", source.resume, MAX_RESUME),
    )
    for name, entries, limit in limits:
        if len(entries or ()) > limit:
            yield FieldViolation(name, f"at most {limit:,} entries")
    if any(not message.id or len(message.id) > MAX_MESSAGE_ID for message in source.messages):
        yield FieldViolation("messages", f"an id has 1 to {MAX_MESSAGE_ID:,} characters")
    answered = [entry.interrupt_id for entry in source.resume or ()]
    if len(set(answered)) != len(answered):
        yield FieldViolation("resume", "an interrupt is answered twice")
