"""Asks people from within a task of the mesh: the attempt ends with the question, and a later one has the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archon.agent import Question, TaskContext
from archon_mesh.core.messages import ChatMessage
from archon_mesh.node.checkpoint import OpenCalls, encode_question_checkpoint
from archon_mesh.tools.people.ask import PersonAnswer, PersonQuestion, QuestionAsked
from archon_mesh.tools.people.sdk_questions import to_answer, to_question
from archon_mesh.tools.result import ToolResult


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

    def question(self, asked: QuestionAsked, messages: Sequence[ChatMessage]) -> Question:
        """Returns the question with which the attempt ends. `messages` are those since the query; the last one is the
        model's reply with the calls. Raises FrameTooLarge if a checkpoint cannot hold them."""
        left = OpenCalls(self.open_calls.count, {**self._results, **asked.results}, self._asked)
        return to_question(asked.question, encode_question_checkpoint(messages, left), asked.input_id)
