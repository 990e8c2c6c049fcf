"""Asks people from within a task of the mesh: the attempt ends with the question, and a later one has the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from archon.agent import Question, TaskContext
from archon_mesh.core.messages import ChatMessage
from archon_mesh.node.checkpoint import OpenCalls, encode_question_checkpoint
from archon_mesh.tools.people.ask import PersonAnswer, PersonQuestion, QuestionAsked, resumable_call
from archon_mesh.tools.people.sdk_questions import to_answer, to_question
from archon_mesh.tools.result import ToolResult

_AT_CALL: Final = "b"
_AT_MODEL: Final = "m"
"""How the ids of the questions of breakpoints begin: before a tool call, before a model call. Others begin with t."""


def is_of_breakpoint(input_id: str) -> bool:
    """Returns whether the question with this id, unique in its task, was asked by a breakpoint."""
    return input_id[:1] in (_AT_CALL, _AT_MODEL) and input_id[1:].isdecimal()


@dataclass(slots=True)
class TaskDesk:
    """The way from one attempt to people. `open_calls` are the calls of an earlier attempt's last reply."""

    task: TaskContext
    open_calls: OpenCalls = field(default_factory=OpenCalls)
    _asked: dict[int, list[str]] = field(default_factory=dict)
    """The ids of the questions of each call of the current reply, in the order in which they were asked."""
    _answered: dict[int, int] = field(default_factory=dict)
    """How many of them were asked again in this attempt."""
    _results: Mapping[int, ToolResult] = field(default_factory=dict)
    _before_model: tuple[Sequence[ChatMessage], Mapping[int, ToolResult]] = ((), MappingProxyType({}))
    """At a breakpoint before a model call: the messages up to the last reply with calls, and the results of these."""

    def begin_calls(self, *, resumed: bool) -> Mapping[int, ToolResult]:
        """Begins the calls of a reply."""
        self._answered = {}
        self._asked = {index: list(ids) for index, ids in self.open_calls.asked.items()} if resumed else {}
        self._results = self.open_calls.results if resumed else {}
        return self._results

    async def ask(self, question: PersonQuestion, call: int | None) -> PersonAnswer:
        """Returns the answer, if an earlier attempt has asked the question. Raises QuestionAsked if not; a call that
        cannot be resumed waits for the answer."""
        if call is None:
            return to_answer(await self.task.ask_question(to_question(question)))
        number = self._answered.get(call, 0)
        self._answered[call] = number + 1
        ids = self._asked.setdefault(call, [])
        if number == len(ids):
            self.open_calls.count += 1
            ids.append(f"t{self.open_calls.count}")
        if (given := self.task.answers.get(ids[number])) is not None:
            return to_answer(given)
        raise QuestionAsked(question, ids[number])

    async def hold_call(self, question: PersonQuestion | None) -> PersonAnswer | None:
        """Returns the answer to the question of a breakpoint before the current tool call; None if there is no
        breakpoint (`question` is None) and has been none, or the call is past it. Raises QuestionAsked if the answer is
        still to come; a call that cannot be resumed waits for it."""
        call = resumable_call()
        if call is None:
            return await self.wait(question)
        number, ids = self._answered.get(call, 0), self._asked.setdefault(call, [])
        if number < len(ids) and not ids[number].startswith(_AT_CALL):
            return None  # what comes after the breakpoint has asked already
        if number == len(ids):
            if question is None:
                return None
            self.open_calls.count += 1
            ids.append(f"{_AT_CALL}{self.open_calls.count}")
        self._answered[call] = number + 1
        if (given := self.task.answers.get(ids[number])) is not None:
            return to_answer(given)
        if question is None:
            return None
        raise QuestionAsked(question, ids[number])

    async def hold_model(
        self,
        question: PersonQuestion | None,
        number: int,
        messages: Sequence[ChatMessage],
        results: Mapping[str, ToolResult],
    ) -> PersonAnswer | None:
        """Returns the answer to the question of a breakpoint before model call `number` of the task, from 1; None as in
        `hold_call`. `messages` come after the query, `results` has the results of tool calls by their ids. Raises
        QuestionAsked; if the messages do not end with the results of a reply's calls, it waits for the answer."""
        input_id = f"{_AT_MODEL}{number}"
        if (given := self.task.answers.get(input_id)) is not None:
            return to_answer(given)
        if question is None:
            return None
        reply = max((index for index, message in enumerate(messages) if message.tool_calls), default=-1)
        after, calls = messages[reply + 1 :], messages[reply].tool_calls if reply >= 0 else ()
        if any(message.role != "tool" for message in after) or len(after) != len(calls):
            return await self.wait(question)
        ended = {
            index: results.get(call.id) or self._results.get(index) or ToolResult(message.content)
            for index, (call, message) in enumerate(zip(calls, after, strict=True))
        }
        self._before_model = messages[: reply + 1], ended
        raise QuestionAsked(question, input_id)

    async def wait(self, question: PersonQuestion | None) -> PersonAnswer | None:
        """Returns the answer to a question within the attempt, which goes on; None without a question."""
        return None if question is None else to_answer(await self.task.ask_question(to_question(question)))

    def question(self, asked: QuestionAsked, messages: Sequence[ChatMessage]) -> Question:
        """Returns the question with which the attempt ends. `messages` are those since the query; the last one is the
        model's reply with the calls. Raises FrameTooLarge if a checkpoint cannot hold them."""
        left = OpenCalls(self.open_calls.count, {**self._results, **asked.results}, self._asked)
        if asked.input_id.startswith(_AT_MODEL):
            messages, results = self._before_model
            if not messages:  # nothing was done yet
                return to_question(asked.question, b"", asked.input_id)
            left = OpenCalls(self.open_calls.count, results)
        return to_question(asked.question, encode_question_checkpoint(messages, left), asked.input_id)
