"""The goal and the options of the run that an AG-UI input asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import DeveloperMessage, Message, RunAgentInput, SystemMessage, ToolMessage, UserMessage

from archon.errors import InvalidArgument
from archon.submission import RunOptions
from archon.types.part import Part
from archon_services.common.a2a_keys import RESERVED, budget_from, timeout_from
from archon_services.gateway.agui.contents import parts_of, text_of
from archon_services.gateway.agui.inputs import history_of

AGENT: Final = "dev.archon/agui-agent"
"""Metadata of a run that a front end has submitted: the role that it went to, or `*` for the mesh itself."""

RUN: Final = "dev.archon/agui-run"
"""Metadata of such a run: the id that the front end gave it."""

MESH: Final = "*"

CANCEL: Final = "dev.archon/cancel-on-disconnect"
"""Key of `forwardedProps`: true has the run cancelled if the front end closes the stream before its end."""

PARENT: Final = "org.ag-ui/parent-run-id"
PART: Final = "org.ag-ui/part"
"""Metadata of a part of a goal that is not of the newest messages: `context`, `history`, `system` or `developer`."""

MESSAGE_ID: Final = "org.ag-ui/message-id"
"""Metadata of a part of a goal: the message that it is of."""

MAX_METADATA: Final = 48
"""Entries of `forwardedProps` that a run has."""

MAX_VALUE: Final = 4_000
"""Characters of such an entry, key and value together."""

MAX_HISTORY: Final = 100
MAX_HISTORY_TEXT: Final = 64 * 1024
"""Earlier messages that go with a goal, the newest ones, and their characters."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A run that a front end wants: the goal, its options, and whether it ends with the stream."""

    goal: Sequence[Part]
    options: RunOptions
    ends_with_stream: bool


def wish_of(source: RunAgentInput, agent: str, *, with_history: bool) -> Wish:
    """Returns the run that an input asks of a role, or with an empty `agent` of the mesh, without roles and strategy.

    The goal is the newest messages of the user, after the context that the front end gives. With `with_history` the
    earlier messages go along as one text: a stateful role has them already. Raises InvalidArgument.
    """
    props = _props(source)
    options = RunOptions(
        session_id=source.thread_id,
        request_id=request_id_of(source, agent),
        timeout=timeout_from(props),
        budget=budget_from(props),
        metadata={**_metadata(source, props), AGENT: agent or MESH, RUN: source.run_id},
    )
    return Wish(_goal(source, with_history), options, props.get(CANCEL) is True)


def request_id_of(source: RunAgentInput, agent: str) -> str:
    """Returns the request id under which the run of an input is submitted, once."""
    key = json.dumps([agent, source.thread_id, source.run_id])
    return "agui:" + hashlib.sha256(key.encode()).hexdigest()


def ends_with_stream(source: RunAgentInput) -> bool:
    """Whether the run is cancelled if the front end closes the stream."""
    return _props(source).get(CANCEL) is True


def _goal(source: RunAgentInput, with_history: bool) -> list[Part]:
    earlier, newest = _newest(history_of(source))
    goal = [
        Part(text=f"{each.description}:\n{each.value}", metadata={PART: "context"}) for each in source.context or ()
    ]
    if with_history and (text := _transcript(earlier)):
        goal.append(Part(text=text, metadata={PART: "history"}))
    for message in newest:
        goal += _parts(message)
    if not any(isinstance(message, UserMessage) for message in newest):
        raise InvalidArgument("the input has no new message of the user, and resumes no run")
    return goal


def _newest(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Splits messages behind the last one of an agent or a tool."""
    answered = [index for index, message in enumerate(messages) if message.role in ("assistant", "tool")]
    start = answered[-1] + 1 if answered else 0
    return messages[:start], messages[start:]


def _parts(message: Message) -> list[Part]:
    if isinstance(message, UserMessage):
        kind: dict[str, str] = {}
    elif isinstance(message, SystemMessage | DeveloperMessage):
        kind = {PART: message.role}
    else:
        return []
    return [
        Part(part.text, part.raw, part.url, part.data_json, part.filename, part.media_type, _of(message, kind))
        for part in parts_of(message.content)
    ]


def _of(message: Message, kind: Mapping[str, str]) -> dict[str, str]:
    return {MESSAGE_ID: message.id, **kind}


def _transcript(messages: Sequence[Message]) -> str:
    lines: list[str] = []
    left = MAX_HISTORY_TEXT
    for message in reversed(messages[-MAX_HISTORY:]):
        if message.role in ("activity", "reasoning"):
            continue
        content = None if message.role == "activity" else text_of(message.content)
        author = "tool" if isinstance(message, ToolMessage) else getattr(message, "name", None) or message.role
        line = f"{author}: {content}"
        left -= len(line)
        if left < 0:
            break
        if content:
            lines.append(line)
    return "\n\n".join(["Earlier messages of this conversation:", *reversed(lines)]) if lines else ""


def _props(source: RunAgentInput) -> Mapping[str, Any]:
    return source.forwarded_props if isinstance(source.forwarded_props, dict) else {}


def _metadata(source: RunAgentInput, props: Mapping[str, Any]) -> dict[str, str]:
    kept = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in props.items()
        if not key.startswith(RESERVED)
    }
    if len(kept) > MAX_METADATA or any(len(key) + len(value) > MAX_VALUE for key, value in kept.items()):
        limits = f"at most {MAX_METADATA} entries of {MAX_VALUE:,} characters, each with its key"
        raise InvalidArgument(f"forwardedProps has {limits}")
    if source.parent_run_id:
        kept[PARENT] = source.parent_run_id[:MAX_VALUE]
    return kept
