"""The run of the mesh that an AG-UI input is about: a new one, one in progress, or one that it resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ag_ui.core import RunAgentInput

from archon.client import Client
from archon.errors import (
    FrontEndToolsRefused,
    InterruptsPending,
    RequestIdReused,
    UnknownInterrupt,
    UnknownRun,
)
from archon.submission import RunOptions
from archon.types.run import Run
from archon.types.task_state import TaskState
from archon_services.gateway.agents import AgentDirectory
from archon_services.gateway.agui.answered import check_same, read_answered
from archon_services.gateway.agui.goals import AGENT, MESH, MESSAGE_ID, RUN, ends_with_stream, wish_of
from archon_services.gateway.agui.inputs import history_of
from archon_services.gateway.agui.interrupts import AnswerGiven, InterruptId, answer_to, asked_at

ASKING = (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)
UNFINISHED = (TaskState.SUBMITTED, TaskState.WORKING, *ASKING)

MAX_RUNS = 20
"""Runs of a thread in one state that are looked at, the newest ones."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """The part of a run of the mesh that is an AG-UI run: all of it, or the events after the answers to the questions
    `resumed`. With `ends_with_stream` the run is cancelled if the front end closes the stream.

    `answers` are given once the run is watched, so that no event after them is missed.
    """

    run: Run
    resumed: frozenset[str] = frozenset()
    answers: Sequence[AnswerGiven] = ()
    ends_with_stream: bool = False


class AgentRuns:
    """Finds, submits and resumes the runs of one agent for the caller that is being served. `agent` is a role; empty
    for the mesh itself."""

    def __init__(self, client: Client, directory: AgentDirectory, agent: str, tenant: str) -> None:
        self._client, self._directory = client, directory
        self._agent, self._tenant = agent, tenant

    async def open(self, source: RunAgentInput) -> RunPart:
        """Returns the run of an input, which is submitted unless it was before, or goes on with the answers of the
        input. Raises InvalidArgument, UnknownRole, UnknownInterrupt, InterruptsPending, FrontEndToolsRefused, and the
        errors of `Client.submit` and `Client.respond`."""
        if source.tools:
            raise FrontEndToolsRefused("agents of a mesh take no tools of front ends: send the input without `tools`")
        if source.resume:
            return await self._resumed(source)
        asking = await self._asking(source.thread_id)
        if asking is not None:
            if asking.metadata.get(RUN) == source.run_id:
                return RunPart(asking, ends_with_stream=ends_with_stream(source))
            asked = ", ".join(question.input_id for question in asking.questions)
            raise InterruptsPending(
                f"the thread waits for answers to {asked}: resume its run, or stop it",
                metadata={"run_id": asking.run_id},
            )
        return await self._submitted(source)

    async def stop(self, thread_id: str) -> list[str]:
        """Cancels the unfinished runs of a thread that went to this agent. Returns their ids."""
        stopped = []
        for row in await self._client.list_runs(session_id=thread_id, states=UNFINISHED, limit=MAX_RUNS):
            if self._is_own(await self._client.get(row.run_id)):
                await self._client.cancel(row.run_id, "stopped by the user of a front end")
                stopped.append(row.run_id)
        return stopped

    async def _asking(self, thread_id: str) -> Run | None:
        """Returns the run of a thread that waits for people; None without one."""
        for row in await self._client.list_runs(session_id=thread_id, states=ASKING, limit=MAX_RUNS):
            run = await self._client.get(row.run_id)
            if self._is_own(run) and run.questions:
                return run
        return None

    async def _submitted(self, source: RunAgentInput) -> RunPart:
        agent = await self._directory.find(self._agent, self._tenant)
        has_history = agent is not None and agent.stateful  # a role that the directory has not seen yet: as stateless
        wish = wish_of(source, self._agent, with_history=not has_history)
        roles: Sequence[str] = [self._agent]
        strategy = "agent"
        if not self._agent:
            chosen = await self._client.choose_strategy(wish.goal)
            roles, strategy = chosen.roles, chosen.strategy
        options = RunOptions(**{**wish.options, "roles": list(roles), "strategy": strategy})
        try:
            run = (await self._client.submit(wish.goal, **options)).run
        except RequestIdReused as error:
            # The same run: the mesh has other roles by now, or the front end other messages. It is not run again.
            if "run_id" not in error.metadata:
                raise
            run = await self._client.get(error.metadata["run_id"])
        return RunPart(run, ends_with_stream=wish.ends_with_stream)

    async def _resumed(self, source: RunAgentInput) -> RunPart:
        entries = {InterruptId.parse(entry.interrupt_id): entry for entry in source.resume or ()}
        run = await self._interrupted(source.thread_id, list(entries))
        if run.state.final and self._has_news(source, run):
            return await self._submitted(source)  # the front end had to name the interrupts of a run that has ended
        questions = {question.input_id: question for question in run.questions}
        named = frozenset(each.input_id for each in entries)
        closed = await read_answered(self._client, run, named - questions.keys()) if named - questions.keys() else {}
        if unknown := sorted(named - questions.keys() - closed.keys()):
            raise UnknownInterrupt(f"the run has asked no question {unknown[0][:200]!r}")
        self._check_coverage(run, list(entries))
        answers: list[AnswerGiven] = []
        for interrupt, entry in entries.items():
            if (known := closed.get(interrupt.input_id)) is not None:
                check_same(known, answer_to(known.question, entry), run)
            else:
                answers.append(answer_to(questions[interrupt.input_id], entry))
        return RunPart(run, named, answers, ends_with_stream(source))

    async def _interrupted(self, thread_id: str, interrupts: Sequence[InterruptId]) -> Run:
        run_ids = {each.run_id for each in interrupts}
        if len(run_ids) > 1:
            raise UnknownInterrupt("the interrupts of a resume are of one run")
        try:
            run = await self._client.get(interrupts[0].run_id)
        except UnknownRun:
            run = None
        if run is None or run.session_id != thread_id or not self._is_own(run):
            raise UnknownInterrupt(f"no run of the thread has asked with the interrupt {str(interrupts[0])[:200]!r}")
        return run

    def _check_coverage(self, run: Run, interrupts: Sequence[InterruptId]) -> None:
        """Raises InterruptsPending if an answer is missing to a question that was open with an answered one."""
        named = {each.input_id for each in interrupts}
        if not any(question.input_id in named for question in run.questions):
            return  # all were answered before
        newest = max(each.time for each in interrupts)
        left = [each.input_id for each in run.questions if each.input_id not in named and asked_at(each) <= newest]
        if left:
            raise InterruptsPending(
                f"the resume leaves open {', '.join(left)}: answer all interrupts of a run at once",
                metadata={"run_id": run.run_id},
            )

    def _is_own(self, run: Run) -> bool:
        return run.metadata.get(AGENT) == (self._agent or MESH)

    def _has_news(self, source: RunAgentInput, run: Run) -> bool:
        """Whether an input has messages of the user that came after the run began."""
        known = {part.metadata.get(MESSAGE_ID) for part in run.goal}
        users = [message.id for message in history_of(source) if message.role == "user"]
        return bool(users) and users[-1] not in known


async def give(client: Client, run: Run, answers: Sequence[AnswerGiven]) -> None:
    """Answers questions of a run, or cancels it. Raises the errors of `Client.respond` and `Client.cancel`."""
    for answer in answers:
        if answer.abandons:
            await client.cancel(run.run_id, "the user of a front end has cancelled a question")
        else:
            await client.respond(run.run_id, answer.input_id, answer.parts, decision=answer.decision)
