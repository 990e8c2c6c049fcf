"""The input of a task as the message that a model reads."""

from __future__ import annotations

from archon.agent import TaskContext
from archon.api.common.v1 import common_pb2
from archon.errors import FieldViolation, InvalidArgument
from archon_mesh.core.media import Media
from archon_mesh.core.media_types import TEXTUAL, UNKNOWN, canonical_type
from archon_mesh.core.messages import ChatMessage


def query_of(task: TaskContext) -> ChatMessage:
    """Returns the input of a task, with the expected output, and why an earlier answer was refused.

    Files of text and JSON values are part of the text, URLs of no known type are named in it. Images, audio and other
    files are files of the message, by their bytes or their URL. Raises InvalidArgument for a file whose URL is neither
    http nor https.
    """
    texts: list[str] = []
    files: list[Media] = []
    for number, part in enumerate(task.proto.input):
        content = _content(number, part)
        if isinstance(content, Media):
            files.append(content)
        elif content:
            texts.append(content)
    if task.expected_output:
        texts.append(f"Expected output: {task.expected_output}")
    if task.refusal:
        texts.append(f"An earlier answer was refused: {task.refusal}")
    return ChatMessage("user", "\n\n".join(texts), files=files)


def _content(number: int, part: common_pb2.Part) -> str | Media:
    content = part.WhichOneof("content")
    if content == "text":
        return part.text
    kind = canonical_type(part.media_type)
    if content == "data_json":
        return part.data_json if kind in (UNKNOWN, "application/json") else ""  # else for a reader of that type
    is_text = TEXTUAL.match(kind) is not None
    if content == "url":
        return _at_url(number, part, kind, is_text=is_text)
    if content != "raw":
        return ""
    name = part.filename or "file"
    return f"{name}:\n{part.raw.decode(errors='replace')}" if is_text else Media(part.raw, kind, name=part.filename)


def _at_url(number: int, part: common_pb2.Part, kind: str, *, is_text: bool) -> str | Media:
    if is_text or kind == UNKNOWN:
        return f"[{part.filename or 'file'}{'' if kind == UNKNOWN else f', {kind}'}: {part.url}]"
    try:
        return Media.at(part.url, kind, name=part.filename)
    except InvalidArgument as error:
        violations = [FieldViolation(f"input[{number}]", "a URL of a file begins with http://, https:// or data:")]
        raise InvalidArgument(error.message, field_violations=violations) from None
