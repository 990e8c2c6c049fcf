"""The input of a task as the text that a model reads."""

from __future__ import annotations

from typing import Final

from archon.agent import TaskContext
from archon.api.common.v1 import common_pb2
from archon.errors import FieldViolation, InvalidArgument

TEXT_TYPES: Final = ("application/json", "application/xml", "application/yaml", "application/x-yaml")
"""Media types of files that are text, beside those that begin with `text/`."""


def query_of(task: TaskContext) -> str:
    """Returns the input of a task, with what is expected of the answer, and why an earlier one was refused.

    Files of text and JSON values are part of it, files at a URL are named. Raises InvalidArgument for other files: no
    model client takes them, and an answer that leaves one out in silence is wrong.
    """
    text = "\n\n".join(filter(None, (_text(number, part) for number, part in enumerate(task.parts))))
    if task.expected_output:
        text = f"{text}\n\nExpected output: {task.expected_output}"
    return f"{text}\n\nAn earlier answer was refused: {task.refusal}" if task.refusal else text


def _text(number: int, part: common_pb2.Part) -> str:
    content = part.WhichOneof("content")
    if content == "text":
        return part.text
    kind = part.media_type.partition(";")[0].strip().lower()
    if content == "data_json":
        return part.data_json if kind in ("", "application/json") else ""  # of another type: for a reader of that type
    name = part.filename or "file"
    if content == "url":
        return f"[{name}{f', {kind}' if kind else ''}: {part.url}]"
    if content == "raw" and (kind.startswith("text/") or kind in TEXT_TYPES):
        return f"{name}:\n{part.raw.decode(errors='replace')}"
    if content == "raw":
        what = f"{name} ({kind or 'application/octet-stream'}, {len(part.raw):,} bytes)"
        raise InvalidArgument(
            f"this agent reads text, not {what}",
            field_violations=[FieldViolation(f"input[{number}]", "text, JSON, a URL, or a file of text")],
        )
    return ""
