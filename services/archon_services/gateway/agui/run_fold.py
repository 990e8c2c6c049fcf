"""Folds the events of a run of the mesh into the events of one AG-UI run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TokenUsage,
)

from archon.json_text import json_or
from archon.run_view import Outcome, RunView, TaskView, WaitKind
from archon.types.part import to_parts
from archon.types.run import Run
from archon.types.run_answer import RunAnswer
from archon.types.run_event import RunEvent
from archon.types.run_question import RunQuestion
from archon.types.task_state import TaskState
from archon.types.usage import Usage
from archon_mesh.core.front_end_tools import from_metadata
from archon_services.gateway.agui.contents import answer_text
from archon_services.gateway.agui.front_end_tools import call_id_of, call_of
from archon_services.gateway.agui.inputs import history_of, is_modern, tag_of
from archon_services.gateway.agui.interrupts import interrupts_of, tool_of
from archon_services.gateway.agui.speech import Speech
from archon_services.gateway.agui.subagents import TaskSteps
from archon_services.gateway.agui.task_state_document import TaskStateDocument
from archon_services.gateway.agui.tool_calls import ToolCalls
from archon_services.gateway.agui.transcript import Transcript

VERSION: Final = "1.0"
"""The version of the protocol that the room speaks."""

CUSTOM: Final = frozenset(
    ("planned", "message_sent", "lost", "rejected", "retry", "paused", "resumed", "question_timed_out")
)
"""Events of runs that AG-UI has no type for: custom events with the name `archon.KIND`."""

_LOST: Final = frozenset((Outcome.LOST, Outcome.RETRIED, Outcome.REJECTED, Outcome.GIVEN_BACK))
"""Outcomes of an attempt after which another one begins anew: its messages are withdrawn."""


class RunFold:
    """Turns the events of a run, from the first one on, into events for the front end that sent `source`.

    `resumed` are the questions that it has answered: events before their answers belong to an earlier AG-UI run.
    Events up to the number `after` are known to the front end, which gets the messages and the state as of them.
    """

    def __init__(self, source: RunAgentInput, run: Run, *, resumed: Collection[str] = (), after: int = 0) -> None:
        self.view = RunView()
        self._source, self._run, self._resumed = source, run, frozenset(resumed)
        self._after = min(after, run.last_seq)
        history, tag = history_of(source), tag_of(source)
        self._repeats = len(history) < len(source.messages)
        self._transcript = Transcript(tag, history)
        self._calls = ToolCalls(self._transcript)
        self._calls.know(history)
        self._front_end = frozenset(each.name for each in from_metadata(run.metadata))
        self._steps = TaskSteps(is_modern(source))
        self._state = TaskStateDocument(source.state)
        self._speech: dict[str, Speech] = {}
        self._answered: set[str] = set()
        self._spent = Usage()
        self._begun = self._shown = False

    def opening(self) -> list[BaseEvent]:
        """Returns the first event."""
        metadata = {"dev.archon/run-id": self._run.run_id, "dev.archon/trace-id": self._run.trace_id}
        return [
            RunStartedEvent(
                thread_id=self._source.thread_id,
                run_id=self._source.run_id,
                protocol_version=VERSION,
                parent_run_id=self._source.parent_run_id,
                metadata={key: value for key, value in metadata.items() if value},
            )
        ]

    def apply(self, event: RunEvent) -> list[BaseEvent]:
        """Folds an event, and returns the events that follow from it."""
        if not event.seq and not self._shown:
            return []  # of a part of the run that the front end knows
        spent = self.view.usage if not self._begun else self._spent
        self.view.apply(event)
        if not self._begun and self._begins(event):
            self._begun, self._spent = True, spent
            self._transcript.begin()
        if self._begun and not self._shown and self.view.last_seq >= self._after:
            known = bool(event.seq) and event.seq <= self._after
            if known:
                self._made(event)  # for the messages that are known
                return self._show()
            return [*self._show(), *self._made(event)]
        made = self._made(event)
        return made if self._shown else []

    @property
    def asks(self) -> bool:
        """Whether people are asked, as of the newest event; questions that had been closed when the stream began do not
        count, nor those whose answers it gives."""
        if self.view.ended or self.view.last_seq < self._run.last_seq:
            return False
        return any(question.input_id not in self._resumed for question in self.view.questions)

    @property
    def is_idle(self) -> bool:
        """Whether all tasks that have not ended wait, for people or for each other."""
        waits = (self.view.waiting_for(task) for task in self.view.tasks.values() if not task.final)
        return all(wait is not None and wait.kind is not WaitKind.INSTANCE for wait in waits)

    def interrupted(self, questions: Sequence[RunQuestion]) -> list[BaseEvent]:
        """Returns the events with which the AG-UI run ends because people are asked, or the front end has to call its
        tools: these are no interrupts, but calls without a result."""
        out = self._reach_now()
        for question in questions:
            out += self._call_front_end(question)
        questions = [question for question in questions if call_of(question) is None]
        calls: dict[str, str | None] = {}
        for question in questions:
            calls[question.input_id], made = self._call_of(question)
            out += made
        owners = {task.task_id: self._steps.owner_of(self.view, task) for task in self.view.tasks.values()}
        interrupts = interrupts_of(questions, owners=owners, calls=calls) if questions else []
        asked: dict[str, list[str]] = {}
        for question, interrupt in zip(questions, interrupts, strict=True):
            asked.setdefault(question.task_id, []).append(interrupt.id)
        out += self._close(unfinished=False)
        out += self._steps.end_all(self.view, asked)
        out += [*self._state.snapshot(self.view), self._transcript.snapshot()]
        outcome = RunFinishedInterruptOutcome(interrupts=interrupts) if interrupts else RunFinishedSuccessOutcome()
        return [*out, self._finished(outcome)]

    def ended(self, answers: Sequence[RunAnswer]) -> list[BaseEvent]:
        """Returns the events with which the AG-UI run ends with the run."""
        out = self._reach_now()
        out += self._close(unfinished=True)
        for answer in answers:
            if answer.task_id not in self._answered:
                speech = Speech(self._transcript, f"answer.{answer.task_id}", answer.role, None)
                out += speech.answer(answer.parts)
        out += self._steps.end_all(self.view)
        state, failure = self.view.state, self.view.failure
        if state is TaskState.COMPLETED:
            return [*out, self._finished(RunFinishedSuccessOutcome(), _result(answers))]
        if state is TaskState.CANCELED and is_modern(self._source):
            return [*out, self._finished(RunFinishedCancelledOutcome())]
        message = failure.message if failure is not None else ""
        code = (failure.reason or failure.kind) if failure is not None else ""
        error = RunErrorEvent(
            message=message or f"the run was {state.value}",
            code=code or state.value.upper(),
            usage=self._usage(),
            metadata={"dev.archon/kind": failure.kind} if failure is not None and failure.kind else None,
        )
        return [*out, error]

    def _begins(self, event: RunEvent) -> bool:
        """Whether an event begins the AG-UI run."""
        if not self._resumed:
            return True
        given = event.proto.input_given.input_id if event.type == "input_given" else ""
        return given in self._resumed if given else event.type == "cancel_requested" or bool(self.view.ended)

    def _show(self) -> list[BaseEvent]:
        """Returns the events that bring a front end to the present."""
        self._shown = True
        out: list[BaseEvent] = []
        if self._repeats or not self._transcript.is_empty:
            out.append(self._transcript.snapshot())
        out += self._state.snapshot(self.view)
        for task in self.view.tasks.values():
            if not task.final and task.attempts:
                out += self._steps.begin(self.view, task)
        return out

    def _reach_now(self) -> list[BaseEvent]:
        return [] if self._shown else self._show()

    def _made(self, event: RunEvent) -> list[BaseEvent]:
        kind, task = event.type, self.view.tasks.get(event.task_id)
        out: list[BaseEvent] = []
        if task is not None:
            out += self._of_task(event, task)
        if kind in CUSTOM:
            owner = self._steps.owner_of(self.view, task) if task is not None else None
            out.append(CustomEvent(name=f"archon.{kind}", value=dict(event.data), subagent_run_id=owner))
        if event.seq and self._shown:
            out += self._state.changes(self.view, task)
        return out

    def _of_task(self, event: RunEvent, task: TaskView) -> list[BaseEvent]:
        message, number = event.proto, event.proto.task.attempt
        speech = self._speech.get(task.task_id)
        if speech is None:
            owner = self._steps.owner_of(self.view, task)
            speech = self._speech[task.task_id] = Speech(self._transcript, task.task_id, task.label, owner)
        out: list[BaseEvent] = []
        match event.type:
            case "dispatched":
                speech.begin(number)
                out += self._begin(task)
            case "text_delta":
                out += speech.write(number, message.text_delta.offset, message.text_delta.text)
            case "thinking_delta":
                out += speech.think(number, message.thinking_delta.text)
            case "tool_arguments_delta" if not task.final and not self._is_asked(
                message.tool_arguments_delta.tool_name
            ):
                out += self._calls.arguments(task.task_id, speech, message.tool_arguments_delta)
            case "tool_event" if not task.final and not self._is_asked(message.tool_event.tool_name):
                out += self._calls.activity(task.task_id, speech, message.tool_event)
            case "result" if task.state is TaskState.COMPLETED:
                out += self._begin(task)
                out += self._calls.close(task.task_id, unfinished=True)
                out += speech.answer(to_parts(message.result.output))
                if speech.owner is None:
                    self._answered.add(task.task_id)
        if event.seq and task.attempt is not None and task.attempt.ended:
            out += self._end_attempt(task, speech)
        if task.final:
            out += self._steps.end(self.view, task)
        return out

    def _is_asked(self, tool_name: str) -> bool:
        """Whether calls of a tool are questions to the front end: they are shown once they are asked."""
        return tool_name in self._front_end

    def _begin(self, task: TaskView) -> list[BaseEvent]:
        return self._steps.begin(self.view, task) if self._shown else []

    def _end_attempt(self, task: TaskView, speech: Speech) -> list[BaseEvent]:
        assert task.attempt is not None
        out = self._calls.close(task.task_id, unfinished=task.attempt.outcome is not Outcome.ASKED)
        closed, removed = speech.close(is_lost=task.attempt.outcome in _LOST)
        return [*out, *closed, *([self._transcript.snapshot()] if removed else [])]

    def _close(self, *, unfinished: bool) -> list[BaseEvent]:
        """Ends all that is in progress."""
        out: list[BaseEvent] = []
        for task_id, speech in self._speech.items():
            out += self._calls.close(task_id, unfinished=unfinished)
            out += speech.close()[0]
        return out

    def _call_of(self, question: RunQuestion) -> tuple[str | None, list[BaseEvent]]:
        """Returns the tool call that an approval is about, and the events that show it unless it is shown."""
        name, arguments = tool_of(question)
        speech = self._speech.get(question.task_id)
        if not name or speech is None:
            return None, []
        out: list[BaseEvent] = []
        if self._calls.pending(question.task_id, name) is None:
            out = self._calls.propose(question.task_id, speech, question.input_id, name, arguments)
        return self._calls.pending(question.task_id, name), out

    def _call_front_end(self, question: RunQuestion) -> list[BaseEvent]:
        """Returns the call of a tool of the front end that a question is; nothing for a question to a person."""
        call, speech = call_of(question), self._speech.get(question.task_id)
        if call is None or speech is None:
            return []
        return self._calls.ask(call_id_of(question), speech, call.name, call.arguments_json)

    def _finished(self, outcome: Any, result: Any = None) -> RunFinishedEvent:
        return RunFinishedEvent(
            thread_id=self._source.thread_id,
            run_id=self._source.run_id,
            outcome=outcome,
            result=result,
            usage=self._usage(),
        )

    def _usage(self) -> list[TokenUsage] | None:
        """Returns the tokens of this AG-UI run alone."""
        total, before = self.view.usage, self._spent
        read = max(0, total.input_tokens - before.input_tokens)
        written = max(0, total.output_tokens - before.output_tokens)
        if not read and not written:
            return None
        cached = max(0, total.cached_input_tokens - before.cached_input_tokens)
        return [
            TokenUsage(
                input_tokens=read,
                output_tokens=written,
                total_tokens=read + written,
                cached_input_tokens=cached or None,
            )
        ]


def _result(answers: Sequence[RunAnswer]) -> Any:
    """Returns the answers as the result of a run: a text, a JSON value, or of several answers one by each role."""
    values = [_value(answer) for answer in answers]
    if len(values) == 1:
        return values[0]
    labels = [f"{each.role} ({each.step_id})" if each.step_id else each.role for each in answers]
    return dict(zip(labels, values, strict=True)) or None


def _value(answer: RunAnswer) -> Any:
    data = [part.data_json for part in answer.parts if part.data_json is not None]
    if len(data) == len(answer.parts) == 1:
        return json_or(data[0], data[0])
    return answer_text(answer.parts)
