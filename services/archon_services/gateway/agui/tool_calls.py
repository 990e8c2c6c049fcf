"""The tool calls of a run, as events of AG-UI."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ag_ui.core import (
    BaseEvent,
    Message,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from archon.api.orchestrator.v1 import run_pb2
from archon.json_text import json_or
from archon_services.gateway.agui.speech import Speech
from archon_services.gateway.agui.transcript import Transcript

UNFINISHED: Final = "The call was not finished."
"""The result of a call whose attempt ended without one: front ends take a call without a result for one of theirs."""

_PROPOSED: Final = "approval:"
"""How the id of a call goes on, after the task, that was shown for its approval before the agent had made it."""


@dataclass(slots=True)
class _Call:
    full_id: str
    name: str = ""
    arguments: str = ""
    parent_id: str = ""
    ended: bool = False
    answered: bool = False
    owner: str | None = None


@dataclass(slots=True)
class ToolCalls:
    """Turns tool calls into events. The id of a call is the task and the id that the agent gave it; models give ids
    twice, and then a number follows. A call that asked a person is made again after the answer: it is the same one."""

    transcript: Transcript
    _calls: dict[str, _Call] = field(default_factory=dict)

    def know(self, messages: Iterable[Message]) -> None:
        """Notes the calls in the history of a front end: the ones without a result are in progress."""
        for message in messages:
            for call in getattr(message, "tool_calls", None) or ():
                self._calls[call.id] = _Call(call.id, call.function.name, call.function.arguments, ended=True)
            if isinstance(message, ToolMessage) and (known := self._calls.get(message.tool_call_id)) is not None:
                known.answered = True

    def arguments(self, task_id: str, speech: Speech, piece: run_pb2.ToolArgumentsDelta) -> list[BaseEvent]:
        """Begins a call whose arguments a model writes. They come as a whole: pieces may be lost, and the rest would be
        no JSON."""
        _, out = self._current(task_id, piece.call_id, piece.tool_name, speech)
        return out

    def activity(self, task_id: str, speech: Speech, activity: run_pb2.ToolActivity) -> list[BaseEvent]:
        """Returns the events of a call, or of its result."""
        open_call = self._find(task_id, activity.call_id)
        is_result = activity.result_json or (not activity.arguments_json and open_call is not None and open_call.ended)
        if is_result:
            return self._result(task_id, speech, activity)
        call, out = self._current(task_id, activity.call_id, activity.tool_name, speech)
        return [*out, *self._end(call, activity.arguments_json)]

    def close(self, task_id: str, *, unfinished: bool) -> list[BaseEvent]:
        """Ends the calls in progress of a task; with `unfinished` they get a result that says so."""
        out: list[BaseEvent] = []
        for call in self._calls.values():
            if call.answered or not call.full_id.startswith(f"{task_id}/"):
                continue
            out += self._end(call, "")
            if unfinished:
                out.append(self._answer(call, UNFINISHED))
        return out

    def propose(self, task_id: str, speech: Speech, input_id: str, name: str, arguments: str) -> list[BaseEvent]:
        """Begins a call for which an approval is asked before the agent makes it."""
        return self.ask(f"{task_id}/{_PROPOSED}{input_id}", speech, name, arguments)

    def ask(self, full_id: str, speech: Speech, name: str, arguments: str) -> list[BaseEvent]:
        """Makes a call that has no result until the front end, or a person, has answered."""
        call, out = self._begin(full_id, name, speech)
        return [*out, *self._end(call, arguments)]

    def pending(self, task_id: str, name: str) -> str | None:
        """Returns the id of the newest call of a tool by a task that has no result; None without one."""
        calls = [
            call
            for call in self._calls.values()
            if not call.answered and call.name == name and call.full_id.startswith(f"{task_id}/")
        ]
        return calls[-1].full_id if calls else None

    def _find(self, task_id: str, call_id: str) -> _Call | None:
        base, found, number = f"{task_id}/{call_id}", None, 1
        while (call := self._calls.get(base if number == 1 else f"{base}#{number}")) is not None:
            found, number = call, number + 1
        return found

    def _current(self, task_id: str, call_id: str, name: str, speech: Speech) -> tuple[_Call, list[BaseEvent]]:
        """Returns a call without a result, and the events that begin it if it is new."""
        found = self._find(task_id, call_id) or self._proposed(task_id, name)
        if found is not None and not found.answered:
            return found, []
        base = f"{task_id}/{call_id}"
        number = 1 + sum(1 for known in self._calls if known == base or known.startswith(f"{base}#"))
        return self._begin(base if number == 1 else f"{base}#{number}", name, speech)

    def _proposed(self, task_id: str, name: str) -> _Call | None:
        """Returns a call that was shown for its approval, and is made now."""
        prefix = f"{task_id}/{_PROPOSED}"
        calls = (call for call in self._calls.values() if call.full_id.startswith(prefix) and call.name == name)
        return next((call for call in calls if not call.answered), None)

    def _begin(self, full_id: str, name: str, speech: Speech) -> tuple[_Call, list[BaseEvent]]:
        out = [*speech.end_thinking(), *speech.end_text()]
        parent = speech.parent()
        call = self._calls[full_id] = _Call(full_id, name, parent_id=parent.id, owner=speech.owner)
        self.transcript.add_call(parent, full_id, name, "")
        start = ToolCallStartEvent(
            tool_call_id=full_id, tool_call_name=name, parent_message_id=parent.id, subagent_run_id=speech.owner
        )
        return call, [*out, start]

    def _end(self, call: _Call, arguments: str) -> list[BaseEvent]:
        if call.ended:
            return []
        call.ended, call.arguments = True, arguments
        self.transcript.set_arguments(call.full_id, arguments)
        end = ToolCallEndEvent(tool_call_id=call.full_id, subagent_run_id=call.owner)
        if not arguments:
            return [end]
        return [ToolCallArgsEvent(tool_call_id=call.full_id, delta=arguments, subagent_run_id=call.owner), end]

    def _result(self, task_id: str, speech: Speech, activity: run_pb2.ToolActivity) -> list[BaseEvent]:
        call, out = self._current(task_id, activity.call_id, activity.tool_name, speech)
        out += self._end(call, activity.arguments_json)
        speech.end_reply()
        value = json_or(activity.result_json)
        text = value if isinstance(value, str) else activity.result_json
        return [*out, self._answer(call, text, failed=activity.failed)]

    def _answer(self, call: _Call, text: str, *, failed: bool = False) -> BaseEvent:
        call.answered = True
        message_id = self.transcript.id_of("result", hashlib.sha256(call.full_id.encode()).hexdigest()[:16])
        metadata = {"dev.archon/failed": True} if failed else None
        message = ToolMessage(
            id=message_id, tool_call_id=call.full_id, content=text, error=text[:500] if failed else None
        )
        self.transcript.add_result(message)
        return ToolCallResultEvent(
            message_id=message_id,
            tool_call_id=call.full_id,
            content=text,
            role="tool",
            subagent_run_id=call.owner,
            metadata=metadata,
        )
