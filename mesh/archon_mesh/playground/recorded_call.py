"""A recorded model call of a run: its prompt and its reply, found by task and number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from archon.errors import ArchonError, InvalidArgument, NotFound
from archon.json_text import json_or
from archon.types import RunRecord
from archon_mesh.llm import ModelReply, ModelRequest
from archon_mesh.playground.request_json import to_reply, to_request

INPUT = "input"
"""The origin of the message with the task's input."""

SYSTEM_PROMPT = "system_prompt"
"""The origin of the message with the agent's own prompt."""


@dataclass(frozen=True)
class RecordedCall:
    """A model call as it was recorded. `number` counts the model calls of its task from 1, over all attempts."""

    record: RunRecord
    number: int
    task_calls: int = field(default=1, compare=False)
    """The number of model calls of the task."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.record.task.run_id

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return self.record.task.task_id

    @property
    def role(self) -> str:
        """The role of the task."""
        return self.record.role

    @property
    def label(self) -> str:
        """The call for a person."""
        return f"{self.role}, call {self.number} of {self.task_calls}"

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The recorded request, empty if it has another form."""
        request = json_or(self.record.request_json)
        return request if isinstance(request, dict) else {}

    @property
    def sent(self) -> Mapping[str, Any]:
        """The request to the provider, as it is recorded; empty if none was sent over HTTP, or if its agent does not
        record it."""
        sent = self.data.get("sent")
        return sent if isinstance(sent, dict) else {}

    @property
    def model(self) -> str:
        """The name of the model, as `create_model` takes it if its provider is known."""
        api, body = self.sent.get("api"), self.sent.get("body")
        named = body.get("model") if isinstance(body, dict) else None
        return f"{api}/{named}" if api and isinstance(named, str) else self.record.target

    @cached_property
    def request(self) -> ModelRequest:
        """The request of the agent. Raises FailedPrecondition if contents of it were not recorded."""
        return to_request(self.data)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of thinking that went with the request, as a ModelSpec takes them."""
        body = self.sent.get("body")
        found = (body.get("thinking") or body.get("reasoning")) if isinstance(body, dict) else None
        return found if isinstance(found, dict) and "$" not in found else {}

    @cached_property
    def reply(self) -> ModelReply | None:
        """The reply; None if the call failed. Raises FailedPrecondition if its contents were not recorded."""
        response = json_or(self.record.response_json)
        if not isinstance(response, dict) or "error" in response or "text" not in response:
            return None
        return to_reply(response)

    @property
    def failure(self) -> str:
        """The error of a call that failed, empty otherwise."""
        response = json_or(self.record.response_json)
        error = response.get("error") if isinstance(response, dict) else None
        return str(error.get("message", error)) if isinstance(error, dict) else ""

    def message_of(self, origin: str) -> int | None:
        """Returns the index of the first message of an origin, such as `input`; None if there is none."""
        origins = self.data.get("origins") or []
        return next((index for index, each in enumerate(origins) if (each or {}).get("kind") == origin), None)


def recorded_calls(records: Iterable[RunRecord]) -> list[RecordedCall]:
    """Returns the model calls of records, in their order, numbered by task."""
    by_task: dict[str, list[RunRecord]] = {}
    models = [record for record in records if record.kind == "model"]
    for record in models:
        by_task.setdefault(record.task.task_id, []).append(record)
    numbers = {id(record): number for calls in by_task.values() for number, record in enumerate(calls, 1)}
    return [RecordedCall(record, numbers[id(record)], len(by_task[record.task.task_id])) for record in models]


def find_call(
    calls: Sequence[RecordedCall], task: str = "", number: int | None = None, steps: Mapping[str, str] | None = None
) -> RecordedCall:
    """Returns a call of a task, which is named by its role, its step or its id, or by the beginning of its id; by
    default the last call. A number below 0 counts from the last call. `steps` has the ids of tasks by their steps.

    Raises NotFound if there is none, InvalidArgument if several tasks have the name.
    """
    if not calls:
        raise NotFound("no model calls are recorded of this run")
    tasks = dict.fromkeys(call.task_id for call in calls if _is_named(call, task, steps or {}))
    if not tasks:
        known = ", ".join(dict.fromkeys(call.role for call in calls))
        raise NotFound(f"no model calls are recorded of the task {task!r}; they are recorded of {known}")
    if len(tasks) > 1:
        named = ", ".join(f"{task_id} ({_role(calls, task_id)})" for task_id in list(tasks)[:8])
        raise InvalidArgument(
            f"{len(tasks)} tasks {f'are named {task!r}' if task else 'have model calls'}: name one of {named}"
        )
    found = [call for call in calls if call.task_id in tasks]
    position = len(found) if number is None else number if number > 0 else len(found) + 1 + number
    if not 1 <= position <= len(found):
        count = f"{len(found)} recorded model call{'' if len(found) == 1 else 's'}"
        raise NotFound(f"{found[0].role} has {count}: there is no call {number}")
    return found[position - 1]


def readable_reply(call: RecordedCall) -> ModelReply | None:
    """Returns the reply of a call; None if there is none, or none that can be read."""
    try:
        return call.reply
    except ArchonError:
        return None


def _is_named(call: RecordedCall, task: str, steps: Mapping[str, str]) -> bool:
    named = steps.get(task, task)
    return not task or task == call.role or call.task_id.startswith(named)


def _role(calls: Sequence[RecordedCall], task_id: str) -> str:
    return next(call.role for call in calls if call.task_id == task_id)
