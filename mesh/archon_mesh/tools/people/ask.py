"""Asks a person from within a tool or a hook.

In a task of the mesh the question ends the attempt, which frees its slot and its process: `QuestionAsked` unwinds the
loop of the agent, which is resumed from its checkpoint once there is an answer. The tool that asked is called again
then, and gets the answer where it asked; calls of the same reply that had ended are not repeated. A call within
another one (of a sub-agent, a composite tool or a plan) cannot be resumed by itself: there the attempt waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from archon.errors import FailedPrecondition, QuestionTimedOut
from archon_mesh.core.people import (
    NO_TERMS,
    Decision,
    QuestionKind,
    QuestionTerms,
    TimeoutPolicy,
    decision_of,
)
from archon_mesh.tools.person_time import person_time
from archon_mesh.tools.result import ToolResult


@dataclass(frozen=True, slots=True)
class PersonQuestion:
    """A question to a person. `schema` is the JSON Schema that an answer, or the modification of an approval, must
    match; None for free text. `subject` describes the action of an approval."""

    text: str
    kind: QuestionKind = QuestionKind.INPUT
    schema: Mapping[str, Any] | None = None
    subject: Mapping[str, Any] | None = None
    terms: QuestionTerms = NO_TERMS


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """An answer. With a decision, `text` is its reason or the modification. `identity` is the person's; it is empty if
    the default answer counts because no answer came in time."""

    text: str
    decision: Decision = Decision.UNSPECIFIED
    identity: str = ""


class Desk(Protocol):
    """The way to a person."""

    async def ask(self, question: PersonQuestion, call: int | None) -> PersonAnswer:
        """Returns the answer. `call` is the index of the tool call in the model's reply, None if the call cannot be
        resumed. Raises QuestionAsked to end the attempt until there is one."""
        ...

    def begin_calls(self, *, resumed: bool) -> Mapping[int, ToolResult]:
        """Begins the calls of a reply. If they are `resumed`, returns the results of those that had ended, by index."""
        ...


class QuestionAsked(BaseException):
    """Ends an attempt with a question. It is no error, and no handler for errors takes it for one."""

    def __init__(self, question: PersonQuestion, input_id: str) -> None:
        super().__init__(question.text)
        self.question = question
        self.input_id = input_id
        self.results: Mapping[int, ToolResult] = {}
        """The results of the calls of the same reply that have ended, by index."""


_desk: ContextVar[Desk | None] = ContextVar("archon_desk", default=None)
_call: ContextVar[int | None] = ContextVar("archon_resumable_call", default=None)


async def ask_person(question: PersonQuestion | str) -> PersonAnswer:
    """Returns a person's answer, for tools and hooks. A tool that asks is called again when there is an answer, in a
    later attempt of its task: its actions before it asks must bear repetition.

    Raises FailedPrecondition if no person can be asked here, QuestionTimedOut if no answer came in time.
    """
    desk = _desk.get()
    if desk is None:
        raise FailedPrecondition("no person can be asked here: run the agent as a role, or within answered_by()")
    asked = PersonQuestion(question) if isinstance(question, str) else question
    with person_time():
        return await desk.ask(asked, _call.get())


def current_desk() -> Desk | None:
    """Returns the way to a person, None if there is none."""
    return _desk.get()


def is_resumable() -> bool:
    """Returns whether a question can suspend the call that is in progress: not within another call."""
    return _call.get() is not None


def resumable_call() -> int | None:
    """Returns the index in the model's reply of the call that a question can suspend; None within another call."""
    return _call.get()


@contextmanager
def bind_desk(desk: Desk) -> Iterator[None]:
    """Has questions go through `desk` within the block."""
    token = _desk.set(desk)
    try:
        yield
    finally:
        _desk.reset(token)


@contextmanager
def bind_resumable_call(index: int | None) -> Iterator[None]:
    """Makes the call with this index of the model's reply the one that a question within the block can suspend; None
    for a call that cannot be resumed."""
    token = _call.set(index)
    try:
        yield
    finally:
        _call.reset(token)


Answering = Callable[[PersonQuestion], Awaitable[PersonAnswer | str]]


@contextmanager
def answered_by(answer: Answering) -> Iterator[None]:
    """Has a function answer the questions within the block, as in a script or a test. A text is an answer; to an
    approval, a decision if it says `approve` or `reject`, else a modification."""
    with bind_desk(FunctionDesk(answer)):
        yield


@dataclass(slots=True)
class FunctionDesk:
    """Asks a function, which has the time of the question's terms."""

    answer: Answering

    async def ask(self, question: PersonQuestion, call: int | None) -> PersonAnswer:
        terms = question.terms
        try:
            async with asyncio.timeout(terms.timeout or None):
                given = await self.answer(question)
        except TimeoutError:
            if terms.policy_after(max(0, len(terms.approvers) - 1)) is not TimeoutPolicy.DEFAULT:
                raise QuestionTimedOut(f"the question was not answered within {terms.timeout:g} s") from None
            given = terms.default
        return given if isinstance(given, PersonAnswer) else _read(question, given)

    def begin_calls(self, *, resumed: bool) -> Mapping[int, ToolResult]:
        return {}


def _read(question: PersonQuestion, text: str) -> PersonAnswer:
    if question.kind is not QuestionKind.APPROVAL:
        return PersonAnswer(text)
    decision = decision_of(text)
    return PersonAnswer("", decision) if decision else PersonAnswer(text, Decision.MODIFY)
