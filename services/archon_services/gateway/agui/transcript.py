"""The messages of one AG-UI run, as a front end has them after its events."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ag_ui.core import AssistantMessage, FunctionCall, Message, MessagesSnapshotEvent, ToolCall, ToolMessage


class Transcript:
    """The messages before the run, and the ones that it has brought. Ids begin with `tag` and are in no other run."""

    def __init__(self, tag: str, before: Sequence[Message]) -> None:
        self._tag = tag
        self._before = before
        self._own: dict[str, AssistantMessage | ToolMessage] = {}

    def id_of(self, *names: object) -> str:
        """Returns the id of a message."""
        return ".".join([self._tag, *map(str, names)])

    def begin(self) -> None:
        """Forgets all messages of the run so far: they belong to an earlier run of the thread."""
        self._own.clear()

    def assistant(self, message_id: str, name: str, owner: str | None) -> AssistantMessage:
        """Returns the message of an agent with an id, which is added if there is none."""
        found = self._own.get(message_id)
        if isinstance(found, AssistantMessage):
            return found
        message = AssistantMessage(id=message_id, name=name, subagent_run_id=owner)
        self._own[message_id] = message
        return message

    def add_call(self, message: AssistantMessage, call_id: str, name: str, arguments: str) -> None:
        """Adds a tool call to a message."""
        call = ToolCall(id=call_id, function=FunctionCall(name=name, arguments=arguments))
        message.tool_calls = [*(message.tool_calls or ()), call]

    def set_arguments(self, call_id: str, arguments: str) -> None:
        """Sets the arguments of a tool call."""
        for message in self._own.values():
            for call in getattr(message, "tool_calls", None) or ():
                if call.id == call_id:
                    call.function.arguments = arguments

    def add_result(self, message: ToolMessage) -> None:
        """Adds the result of a tool call."""
        self._own[message.id] = message

    def drop(self, message_ids: Collection[str]) -> bool:
        """Removes messages, and the results of their calls. Returns whether there was one."""
        calls = {
            call.id
            for message_id in message_ids
            for call in getattr(self._own.get(message_id), "tool_calls", None) or ()
        }
        results = [
            key for key, each in self._own.items() if isinstance(each, ToolMessage) and each.tool_call_id in calls
        ]
        dropped = [self._own.pop(key, None) for key in [*message_ids, *results]]
        return any(message is not None for message in dropped)

    @property
    def is_empty(self) -> bool:
        """Whether the run has brought no message yet."""
        return not self._own

    def snapshot(self) -> MessagesSnapshotEvent:
        """Returns all messages but the reasoning and activities, which stay as a front end has them."""
        before = [message for message in self._before if message.role not in ("activity", "reasoning")]
        own = [message.model_copy() for message in self._own.values()]
        return MessagesSnapshotEvent(messages=[*before, *own])
