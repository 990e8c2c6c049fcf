"""The run of the mesh that an AG-UI input is about: a new one, one in progress, or one that it resumes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ag_ui.core import RunAgentInput, ToolMessage

from archon.client import Client
from archon.errors import (
    InterruptsPending,
    RequestIdReused,
    UnknownInterrupt,
    UnknownRun,
)
from archon.submission import RunOptions
from archon.types.run import Run
from archon.types.run_question import RunQuestion
from archon.types.task_state import TaskState
from archon_services.gateway.agents import AgentDirectory
from archon_services.gateway.agui.answered import check_same, read_answered
from archon_services.gateway.agui.front_end_tools import answer_of, call_of, metadata_of, results_of, run_of
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
        results = results_of(source)
        if source.resume or results:
            return await self._resumed(source, results)
        asking = await self._asking(source.thread_id)
        if asking is not None:
            if asking.metadata.get(RUN) == source.run_id:
                return RunPart(asking, ends_with_stream=ends_with_stream(source))
            asked = ", ".join(question.input_id for question in asking.questions)
            raise InterruptsPending(
                f"the thread waits for answers to {asked}: resume its run, send the results of its calls, or stop it",
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
        tools = metadata_of(source, agent.tools if agent is not None else ())
        roles: Sequence[str] = [self._agent]
        strategy = "agent"
        if not self._agent:
            chosen = await self._client.choose_strategy(wish.goal)
            roles, strategy = chosen.roles, chosen.strategy
        metadata = {**(wish.options["metadata"] or {}), **tools}
        options = RunOptions(**{**wish.options, "metadata": metadata, "roles": list(roles), "strategy": strategy})
        try:
            run = (await self._client.submit(wish.goal, **options)).run
        except RequestIdReused as error:
            # The same run: the mesh has other roles by now, or the front end other messages. It is not run again.
            if "run_id" not in error.metadata:
                raise
            run = await self._client.get(error.metadata["run_id"])
        return RunPart(run, ends_with_stream=wish.ends_with_stream)

    async def _resumed(self, source: RunAgentInput, results: Mapping[str, ToolMessage]) -> RunPart:
        entries = {InterruptId.parse(entry.interrupt_id): entry for entry in source.resume or ()}
        run = await self._interrupted(source.thread_id, {each.run_id for each in entries} | set(map(run_of, results)))
        if run.state.final and self._has_news(source, run):
            return await self._submitted(source)  # the front end had to name the interrupts of a run that has ended
        questions = {question.input_id: question for question in run.questions}
        named = frozenset(each.input_id for each in entries) | results.keys()
        closed = await read_answered(self._client, run, named - questions.keys()) if named - questions.keys() else {}
        if unknown := sorted(named - questions.keys() - closed.keys()):
            raise UnknownInterrupt(f"the run has asked no question {unknown[0][:200]!r}")
        called = [asked_at(question) for question in run.questions if question.input_id in results]
        self._check_coverage(run, named, max([each.time for each in entries] + called, default=0))
        by_id = {each.input_id: entry for each, entry in entries.items()}
        answers: list[AnswerGiven] = []
        for input_id in sorted(named):
            known = closed.get(input_id)
            question = known.question if known is not None else questions[input_id]
            message = results.get(input_id)
            answer = answer_to(question, by_id[input_id]) if message is None else result_given(question, message)
            if known is not None:
                check_same(known, answer, run)
            else:
                answers.append(answer)
        return RunPart(run, named, answers, ends_with_stream(source))

    async def _interrupted(self, thread_id: str, run_ids: Collection[str]) -> Run:
        if len(run_ids) > 1:
            raise UnknownInterrupt("the interrupts and results of an input are of one run")
        [run_id] = run_ids
        try:
            run = await self._client.get(run_id)
        except UnknownRun:
            run = None
        if run is None or run.session_id != thread_id or not self._is_own(run):
            raise UnknownInterrupt(f"the thread has no run {run_id[:200]!r} that has asked")
        return run

    def _check_coverage(self, run: Run, named: Collection[str], newest: int) -> None:
        """Raises InterruptsPending if an answer is missing to a question that was open with an answered one. The newest
        of these was asked at the time `newest`, in milliseconds."""
        if not any(question.input_id in named for question in run.questions):
            return  # all were answered before
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


def result_given(question: RunQuestion, message: ToolMessage) -> AnswerGiven:
    """Returns the answer that the result of a call gives to its question. Raises UnknownInterrupt if the question is no
    call."""
    if call_of(question) is None:
        raise UnknownInterrupt(f"the question {question.input_id} is no call of a tool of the front end")
    return AnswerGiven(question.input_id, answer_of(message))


async def give(client: Client, run: Run, answers: Sequence[AnswerGiven]) -> None:
    """Answers questions of a run, or cancels it. Raises the errors of `Client.respond` and `Client.cancel`."""
    for answer in answers:
        if answer.abandons:
            await client.cancel(run.run_id, "the user of a front end has cancelled a question")
        else:
            await client.respond(run.run_id, answer.input_id, answer.parts, decision=answer.decision)
