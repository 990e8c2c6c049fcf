"""Messages between agents, as text."""

from __future__ import annotations

from archon.plain_text import duration
from archon.run_view import RunView
from archon.run_view.message import MessageState, MessageView
from archon.types import Message
from archon_services.reports.texts import one_line

_WIDTH = 200
"""Characters of a content that are shown."""


def receiver_text(view: RunView, message: Message) -> str:
    """Names the receiver: a role or step; of a task its role."""
    task = view.tasks.get(message.receiver_id)
    return task.label if task is not None else message.receiver_id or "all"


def sender_text(view: RunView, each: MessageView) -> str:
    """Names the sender: its role, and its step if it has one."""
    task = view.tasks.get(each.task_id)
    return task.label if task is not None else each.message.sender_id


def content_text(message: Message) -> str:
    """The content in one line: of an object with one text, that text."""
    content = message.content
    if isinstance(content, dict):
        values = {name: value for name, value in content.items() if value not in ("", None, {}, [])}
        values.pop("task_id", None)
        texts = [value for value in values.values() if isinstance(value, str)]
        if len(values) == 1 and texts:
            return one_line(texts[0], _WIDTH)
        if "result" in values and set(values) <= {"status", "result"}:
            content = values["result"]
            return one_line(content if isinstance(content, str) else Message("", content=content).text, _WIDTH)
    return one_line(message.text, _WIDTH)


def message_row(view: RunView, each: MessageView, now: float, names: dict[str, str]) -> tuple[str, ...]:
    """One message as a row: time in the run, sender, receiver, type, state with readers, content. `names` has the
    labels of tasks by their ids."""
    message = each.message
    state: str = each.state(now, ended=bool(view.ended))
    if state is MessageState.READ:
        state = f"read by {', '.join(names.get(reader, reader) for reader in each.readers)}"
    elif each.failure is not None:
        state = f"refused: {each.failure.message}"
    after = duration(max(0.0, message.timestamp - view.started))
    return (
        after,
        sender_text(view, each),
        receiver_text(view, message),
        message.message_type,
        state,
        content_text(message),
    )
