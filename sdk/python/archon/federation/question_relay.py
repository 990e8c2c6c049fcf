"""Questions of a run in another mesh to people, asked as questions of the task whose run it is."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from archon import context
from archon.agent import GivenAnswer, Question, TaskContext
from archon.errors import (
    ArchonError,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    RequestIdReused,
    Unimplemented,
)
from archon.federation.other_mesh import OtherMesh
from archon.federation.reach import reach
from archon.types.question_terms import QuestionTerms
from archon.types.run_question import RunQuestion

_log = logging.getLogger(__name__)

MAX_INPUT_ID: Final = 256

ROUNDS: Final = 5
"""How often a person is asked for another answer, because the other mesh refuses the one that was given."""

MARGIN: Final = 1.0
"""Seconds by which a question here is open for longer than in the other mesh, whose policy counts."""


class QuestionRelay:
    """Asks one question after another, and gives the answers to the run.

    The id of a question here follows from its id there: a later attempt at the task gets the answer of the person, and
    the other mesh takes the same answer only once.
    """

    def __init__(self, task: TaskContext, mesh: OtherMesh, run_id: str, patience: float) -> None:
        self._task = task
        self._mesh = mesh
        self._run_id = run_id
        self._patience = patience
        self._known: set[str] = set()
        self._waiting: asyncio.Queue[str] = asyncio.Queue()

    def opened(self, input_ids: Iterable[str]) -> None:
        """Takes the ids of the questions that are open in the run. Those that were open before are not asked again."""
        input_ids = list(input_ids)
        self._known.intersection_update(input_ids)
        for input_id in input_ids:
            if input_id not in self._known:
                self._known.add(input_id)
                self._waiting.put_nowait(input_id)

    async def relay(self) -> None:
        """Asks until it is cancelled. Raises the errors of `TaskContext.ask_question`, except if the caller of the task
        takes no questions: then they can be answered in the other mesh only."""
        while True:
            input_id = await self._waiting.get()
            try:
                await self._ask(input_id)
            except Unimplemented as error:
                text = "question %s of run %s in the mesh %s is not asked here: %s"
                _log.warning(text, input_id, self._run_id, self._mesh.name, error)

    async def _ask(self, input_id: str) -> None:
        refusal = ""
        for number in range(1, ROUNDS + 1):
            run = await reach(self._mesh, lambda client: client.get(self._run_id), self._patience)
            question = next((each for each in run.questions if each.input_id == input_id), None)
            if question is None:
                return  # it was answered there, or withdrawn
            answer = await self._task.ask_question(self._question(question, number, refusal))
            if not answer.identity:
                return  # no answer came in time: the other mesh applies its own policy
            try:
                await self._respond(input_id, answer)
                return
            except InvalidArgument as error:
                refusal = str(error)
            except (FailedPrecondition, PermissionDenied, RequestIdReused) as error:
                text = "the answer to question %s of run %s in the mesh %s does not count there: %s"
                _log.warning(text, input_id, self._run_id, self._mesh.name, error)
                return
        text = "question %s of run %s in the mesh %s is left open: %d answers were refused"
        _log.warning(text, input_id, self._run_id, self._mesh.name, ROUNDS)

    async def _respond(self, input_id: str, answer: GivenAnswer) -> None:
        with context.serving(replace(context.current(), identity=answer.identity)):
            await reach(
                self._mesh,
                lambda client: client.respond(self._run_id, input_id, answer.parts, decision=answer.decision),
                self._patience,
            )

    def _question(self, question: RunQuestion, number: int, refusal: str) -> Question:
        """The question as it is asked here."""
        input_id = f"{self._run_id}/{question.input_id}" + (f"#{number}" if number > 1 else "")
        if len(input_id) > MAX_INPUT_ID:
            input_id = hashlib.sha256(input_id.encode()).hexdigest()
        about = f"Asked by {question.role} of the mesh {self._mesh.name}, run {self._run_id}."
        return Question(
            f"{about} The answer before was refused: {refusal}" if refusal else about,
            question.schema_json,
            input_id=input_id,
            parts=question.prompt,
            is_approval=question.is_approval,
            terms=_terms(question),
            subject_json=_subject(question),
        )


def _terms(question: RunQuestion) -> QuestionTerms | None:
    """The same approvers, and at least the time that all of them have in the other mesh. Without an answer the
    question here ends, and nothing else follows from it: the policy of the other mesh counts."""
    terms = question.terms
    if terms is None:
        return None
    timeout = 0.0
    if question.expire_time:
        turns = max(0, len(terms.approvers) - len(question.approvers)) if terms.on_timeout == "escalate" else 0
        # Both times are of the clock there, which may differ from the clock here.
        timeout = question.expire_time - question.create_time + turns * terms.timeout + MARGIN
    default = terms.default_answer or ("reject" if question.is_approval else "no answer")
    return QuestionTerms(
        approvers=terms.approvers,
        timeout=timeout,
        on_timeout="default" if timeout else "",
        default_answer=default if timeout else "",
    )


def _subject(question: RunQuestion) -> str:
    if question.subject_json or question.plan is None:
        return question.subject_json
    try:
        return json.dumps({"plan": json.loads(question.plan.to_json())}, ensure_ascii=False)
    except (ArchonError, ValueError):
        return ""
