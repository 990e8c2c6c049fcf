"""A model that answers the calls of one agent from the file of a run, for tests of agents.

with RecordedModel("march.archon", "designer") as model:
    agent = Agent("designer", model=model, system_prompt=PROMPT)
    assert await agent.run_async(model.input) == model.answer

A request that is not in the file is refused with its difference from the next one that is. docs/testing-agents.md
describes it.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from archon.errors import FailedPrecondition, NotFound
from archon.history import open_run_file
from archon_mesh.core.masking import masked_arguments
from archon_mesh.llm import ModelChunk, ModelClient, ModelReply, ModelRequest, create_model
from archon_mesh.llm.chunks import stream_reply, whole_reply
from archon_mesh.llm.media import EVERYTHING
from archon_mesh.llm.wrappers import RecordingModel
from archon_mesh.llm.wrappers.cassette import decode_reply
from archon_mesh.llm.wrappers.request_content import request_content
from archon_mesh.llm.wrappers.wrapper import stream_of
from archon_mesh.playground import RecordedCall, recorded_calls

VARIABLE: Final = "ARCHON_RERECORD"
"""The environment variable that has replies recorded anew, if it is not empty."""

MAX_LINES: Final = 60
MAX_LINE: Final = 200
"""Lines of a difference, and characters of a line, that an error shows."""

_KEYS: Final = ("temperature", "max_tokens", "output_schema")


@dataclass(slots=True)
class _Expected:
    """A recorded call: its request as lines, its reply, and how often it was asked for. `needed` if a test that never
    asks for it fails."""

    lines: Sequence[str]
    reply: ModelReply
    needed: bool
    asked: int = 0


class RecordedModel:
    """Answers each request of an agent with the reply that the file of a run has for the same content: the same
    messages, tools, temperature, limit and schema of the answer. Each recorded reply is given once; replies to the same
    request are given in their order.

    Any other request raises FailedPrecondition with the difference, which no agent retries. `check`, which the end of a
    `with` block calls, raises AssertionError for such a request, whatever the agent made of it, and for a recorded call
    that was never asked for.

    With `live`, replies can be recorded anew: if ARCHON_RERECORD is set, or with `rerecord`, the live model answers.
    `check` then writes its replies to a file beside the run's, `RUN.ROLE.jsonl`, a cassette. While there is one, it
    stands in place of the calls in the file of the run, which stays as it is.
    """

    media = EVERYTHING

    def __init__(
        self,
        path: Path | str,
        role: str = "",
        *,
        task: str = "",
        live: ModelClient | str | None = None,
        rerecord: bool | None = None,
        normalize: Callable[[str], str] | None = None,
    ) -> None:
        """`role` may be left out if only one role made model calls; `task` is the beginning of the id of one of its
        tasks. `live` is a client, or the name of a model, whose client is created if it is needed. `normalize` is
        applied to each line of both requests before they are compared, to replace parts that differ from day to day.

        Raises InvalidArgument if the file was changed, OSError if it cannot be read, NotFound if it has no calls of the
        role, FailedPrecondition if their contents were not recorded, or if replies shall be recorded without `live`.
        """
        self._path = Path(path)
        self._normalize = normalize
        self._role, calls = _calls(self._path, role, task)
        self._faults: list[str] = []
        self._calls = calls
        self._live: ModelClient | None = None
        self._replies: list[_Expected] = []
        self._file = self._path.with_name(f"{self._path.stem}.{self._role}.jsonl")
        self._new = self._file.with_name(f"{self._file.name}.new")
        if rerecord if rerecord is not None else bool(os.environ.get(VARIABLE)):
            if live is None:
                raise FailedPrecondition(f"replies of {self._role} are recorded anew only with `live`, a model")
            self._new.unlink(missing_ok=True)
            self._live = RecordingModel(create_model(live) if isinstance(live, str) else live, self._new)
        elif self._file.exists():
            self._replies = list(self._of_cassette())
        else:
            self._replies = list(self._of_run())

    @property
    def model(self) -> str:
        """The name of the model that the first recorded call went to."""
        return self._calls[0].record.target

    @property
    def input(self) -> str:
        """The recorded input of the task. Raises NotFound if no message has it."""
        for call in self._calls:
            index = call.message_of("input")
            if index is not None:
                return str(call.data["messages"][index].get("content") or "")
        raise NotFound(f"{self._path} has no input of a task of {self._role}")

    @property
    def answer(self) -> str:
        """The text of the last recorded reply."""
        if self._live is not None:
            raise FailedPrecondition("replies are recorded anew: there is no recorded answer to compare with")
        return self._replies[-1].reply.text

    async def generate(self, request: ModelRequest) -> ModelReply:
        return await whole_reply(self.stream(request))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        if self._live is None:
            async for chunk in stream_reply(self._next(request)):
                yield chunk
            return
        async with aclosing(stream_of(self._live, request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """Closes the live model, if replies are recorded anew. Idempotent."""
        if self._live is not None:
            await self._live.close()

    def check(self) -> None:
        """Raises AssertionError if a request was refused, or if a recorded call was never asked for. Replies that were
        recorded anew replace the earlier ones."""
        if self._live is not None and self._new.exists():
            self._new.replace(self._file)
        if self._faults:
            raise AssertionError(self._faults[0])
        unused = [number for number, each in enumerate(self._replies, 1) if each.needed and not each.asked]
        if unused:
            numbers = ", ".join(map(str, unused))
            raise AssertionError(f"{self._path}: {self._role} did not make these of its recorded calls: {numbers}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.check()

    def _next(self, request: ModelRequest) -> ModelReply:
        lines = self._lines(_masked(request_content(request)))
        same = [each for each in self._replies if each.lines == lines]
        for each in same:
            if not each.asked:
                each.asked += 1
                return each.reply
        fault = f"{self._path} has no such call of {self._role}"
        if same:
            fault += f": call {self._replies.index(same[-1]) + 1} is the same, and its reply was given already"
        else:
            fault += self._difference(lines)
        self._faults.append(fault)
        raise FailedPrecondition(fault)

    def _difference(self, lines: Sequence[str]) -> str:
        left = [(number, each) for number, each in enumerate(self._replies, 1) if not each.asked]
        if not left:
            return f": all {len(self._replies)} recorded calls were made, and this is one more"
        number, expected = left[0]
        changes = [*difflib.unified_diff(expected.lines, lines, "recorded", "requested", lineterm="", n=2)]
        shown = [line[:MAX_LINE] for line in changes[:MAX_LINES]] + (["..."] if len(changes) > MAX_LINES else [])
        return f"; it differs from call {number}, the next one:\n" + "\n".join(shown)

    def _of_run(self) -> Iterable[_Expected]:
        last = {call.task_id: call.record.task.attempt for call in self._calls}
        for call in self._calls:
            reply = call.reply
            if reply is not None:  # the agent has made a call that failed again
                _ = call.request  # raises if its contents were not recorded
                yield _Expected(self._lines(call.data), reply, call.record.task.attempt == last[call.task_id])

    def _of_cassette(self) -> Iterable[_Expected]:
        for line in self._file.read_text(encoding="utf-8").splitlines():
            data = json.loads(line)
            yield _Expected(self._lines(_masked(data["request"])), decode_reply(data["reply"])[0], needed=True)

    def _lines(self, content: Mapping[str, Any]) -> list[str]:
        """Returns the content of a request as lines: a message is its text, so that a difference is one of lines."""
        lines: list[str] = []
        for number, message in enumerate(content.get("messages") or (), 1):
            others = {key: value for key, value in message.items() if key not in ("role", "content", "metadata")}
            lines.append(f"message {number} {message.get('role')}:{f' {_json(others)}' if others else ''}")
            lines += f"{message.get('content') or ''}".splitlines()
        lines += [f"tool {_json(tool)}" for tool in content.get("tools") or ()]
        lines += [f"{key} {_json(content[key])}" for key in _KEYS if content.get(key) is not None]
        return lines if self._normalize is None else [self._normalize(line) for line in lines]


def _calls(path: Path, role: str, task: str) -> tuple[str, list[RecordedCall]]:
    """Returns the role, and its model calls. Raises as RecordedModel."""
    calls = recorded_calls(open_run_file(path).records())
    roles = list(dict.fromkeys(call.role for call in calls))
    if not role and len(roles) != 1:
        raise NotFound(f"{path} has model calls of {', '.join(roles) or 'no role'}: name one of them")
    role = role or roles[0]
    found = [call for call in calls if call.role == role and call.task_id.startswith(task)]
    if not found:
        raise NotFound(f"{path} has no model calls of {role}; it has calls of {', '.join(roles) or 'no role'}")
    return role, found


def _masked(content: dict[str, Any]) -> dict[str, Any]:
    """Returns the content of a request with secrets in the arguments of tools masked, as they are recorded."""
    for message in content["messages"]:
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = masked_arguments(call["function"]["arguments"])
    return content


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
