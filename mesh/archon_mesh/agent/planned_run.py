"""A run that may follow a plan: decides, plans, executes, and makes one answer of the results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Unpack

from archon.errors import FailedPrecondition, OutputMismatch
from archon_mesh.agent.events import types as events
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.limits import SPENT
from archon_mesh.agent.hooks.points import HookDecision, HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.loop.executor import accepted_answer, is_goal_reached, repair_note, run_loop
from archon_mesh.agent.loop.notes import GOAL_NOT_REACHED
from archon_mesh.agent.plan_worker import AgentWorker, RunModel
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.agent.state.running_agent import Phase
from archon_mesh.core.messages import ChatMessage
from archon_mesh.engine.plan import SubTask, Task
from archon_mesh.engine.plan.prompt import progress_of
from archon_mesh.engine.plan.synthesis import only_result, synthesis_messages
from archon_mesh.llm.base import ModelRequest
from archon_mesh.llm.structured import TypedOutput
from archon_mesh.planning.attempt_meter import bind_meter
from archon_mesh.planning.decide import Decision, TaskMode, decide, decided_by
from archon_mesh.planning.errors import PlanFailed
from archon_mesh.planning.events import PlanEvent, PlanEventKind, report
from archon_mesh.planning.executor import PlanExecutor
from archon_mesh.planning.journal import journal_of
from archon_mesh.planning.options import TaskOptions
from archon_mesh.planning.plan_budget import PlanBudget
from archon_mesh.planning.plan_source import FixedSource, PlanSource
from archon_mesh.planning.plan_template import fitting_template
from archon_mesh.planning.planner import Planner
from archon_mesh.planning.recorded_answers import RecordedAnswers
from archon_mesh.planning.records import Asked, PlanRecords, StoredPlan, as_stored, checked_asked
from archon_mesh.planning.task_outcome import TaskOutcome
from archon_mesh.tools.people.ask import ask_person, current_desk

MAX_ANSWERS: Final = 3
"""Number of answers; hooks and the goal check may refuse all but the last."""

_PHASES: Final = {
    PlanEventKind.CREATED: Phase.EXECUTING,
    PlanEventKind.CONTINUED: Phase.EXECUTING,
    PlanEventKind.REPLANNING: Phase.REPLANNING,
    PlanEventKind.REPLANNED: Phase.EXECUTING,
}
_WITH_PLAN: Final = frozenset(
    {PlanEventKind.CREATED, PlanEventKind.REPLANNED, PlanEventKind.COMPLETED, PlanEventKind.FAILED}
)
_LIMITS: Final = ("max_tokens", "max_model_calls", "max_cost", "max_seconds")
_PASSED: Final = (
    "policy",
    "check",
    "alignment",
    "max_parallel",
    "max_attempts",
    "timeout",
    "rules",
    "pause_timeout",
)
"""The options that are the executor's."""

_ENDS: Final = frozenset({PlanEventKind.SUBTASK_COMPLETED, PlanEventKind.SUBTASK_FAILED})


class PlannedRun:
    """One run of `Agent.run_task`."""

    def __init__(self, *, takes_answers: bool = False, **options: Unpack[TaskOptions]) -> None:
        """`takes_answers`: there is a caller that answers questions of the plan. Raises InvalidArgument if the budget
        is out of range."""
        self._options = options
        self._takes_answers = takes_answers
        limits: dict[str, Any] = {name: options[name] for name in _LIMITS if name in options}
        self._budget = PlanBudget(**limits)
        self._is_paused = False
        self.executor: PlanExecutor | None = None
        """Executes the plan; None before there is one. It can be paused, resumed and cancelled, and knows the plan."""

        self.outcome: TaskOutcome | None = None
        """How the query was answered; None until then."""

    async def answer(
        self, state: AgentState, query: Sequence[ChatMessage], hooks: HookRunner, resume_from: Sequence[ChatMessage]
    ) -> str:
        """Finds the answer in place of `run_loop`. Raises the errors of `Agent.run_task`."""
        if self._options.get("rules") and not self._takes_answers and current_desk() is None:
            raise FailedPrecondition(
                "rules of a plan ask a person, and there is none here: use Agent.plan(), or answered_by()"
            )
        if (journal := self._options.get("journal")) is None:
            return await self._answer(state, query, hooks, resume_from, None)
        records = PlanRecords(journal_of(journal))
        try:
            _continue_budget(state, records)
            return await self._answer(state, query, hooks, resume_from, records)
        finally:
            records.close()

    async def _answer(
        self,
        state: AgentState,
        query: Sequence[ChatMessage],
        hooks: HookRunner,
        resume_from: Sequence[ChatMessage],
        records: PlanRecords | None,
    ) -> str:
        started = time.monotonic()
        text, mode = query[-1].content, self._options.get("mode")
        if mode is None and ("planner" in self._options or fitting_template(text, self._options.get("templates", ()))):
            mode = TaskMode.PLANNED
        stored = records.stored if records is not None else StoredPlan()
        decision = self._decision(state, text, mode, records)
        await self._report(state, PlanEvent(PlanEventKind.DECIDED, message=f"{decision.mode}: {decision.reason}"))
        if decision.mode is TaskMode.DIRECT and stored.answer is None:
            answer = await run_loop(state, query, hooks, resume_from)
            if records is not None:
                records.end(answer)
            self.outcome = TaskOutcome(answer, decision.mode, decision.reason, seconds=time.monotonic() - started)
            return answer
        if stored.answer is not None:
            return await self._known_answer(state, query, hooks, decision, mode, records)
        outcome = await hooks.run(HookContext(HookEvent.BEFORE_AGENT, state.agent, state))
        if outcome.decision is HookDecision.STOP:
            return str(outcome.value)
        state.history.extend(query)
        worker = AgentWorker(state, hooks)
        planner = self._planner(state, hooks, worker, records)
        self.executor = executor = self._executor(state, hooks, planner, worker)
        state.phase = Phase.PLANNING
        task = await executor.answer_query(text, self._options.get("initial_context"), records)
        if mode is None:
            decision = decided_by(task, decision)
        bind_meter(executor.rest_meter())
        known = planner.answer(task)
        answer = await self._synthesise(state, hooks, task, executor.answer if known is None else known)
        if records is not None:
            records.end(answer)
        self.outcome = TaskOutcome(
            answer,
            decision.mode,
            decision.reason,
            task,
            tuple(executor.plans),
            dict(executor.measured),
            executor.replans,
            time.monotonic() - started,
        )
        return answer

    def _decision(self, state: AgentState, query: str, mode: TaskMode | None, records: PlanRecords | None) -> Decision:
        """Returns how the query is answered: as the journal says, if it was begun before. Raises JournalMismatch if it
        was begun for something else."""
        tools = {each.name: each.tool.description for each in state.agent.tools.registrations}
        decision = (
            decide(query, state.agent.sub_agents, tools) if mode is None else Decision(mode, "the caller chose it")
        )
        if records is None:
            return decision
        planner = self._options.get("planner")
        request = planner.request if isinstance(planner, FixedSource) else ""
        context = as_stored(self._options.get("initial_context") or {}, "the initial context")
        asked = Asked(query, context, request, decision.mode, decision.reason)
        checked_asked(asked, records.stored)
        if (begun := records.stored.asked) is None:
            records.begin(asked)
            return decision
        return Decision(TaskMode(begun.mode), begun.reason) if begun.mode else decision

    async def _known_answer(
        self,
        state: AgentState,
        query: Sequence[ChatMessage],
        hooks: HookRunner,
        decision: Decision,
        mode: TaskMode | None,
        records: PlanRecords | None,
    ) -> str:
        """Returns the answer that the journal has, with the outcome that led to it."""
        assert records is not None
        stored, worker = records.stored, AgentWorker(state, hooks)
        assert stored.answer is not None
        self.outcome = TaskOutcome(stored.answer, decision.mode, decision.reason, stored.plan)
        if stored.plan is not None and stored.events:
            self.executor = executor = self._executor(state, hooks, self._planner(state, hooks, worker), worker)
            task = await executor.carry_out(stored.plan, records)
            self.outcome = replace(
                self.outcome,
                reason=decided_by(task, decision).reason if mode is None else decision.reason,
                task=task,
                plans=tuple(executor.plans),
                measured=dict(executor.measured),
                replans=executor.replans,
            )
        state.history.extend([*query, ChatMessage("assistant", stored.answer)])
        return stored.answer

    def _planner(
        self, state: AgentState, hooks: HookRunner, worker: AgentWorker, records: PlanRecords | None = None
    ) -> PlanSource:
        if "planner" in self._options:
            return self._options["planner"]
        model = RunModel(state, hooks, is_shown=False)
        approve, clarify = self._options.get("approve"), self._options.get("clarify")
        if records is not None:
            answers = RecordedAnswers(records, lambda: self.executor.revision if self.executor is not None else 0)
            approve = answers.approving(approve) if approve is not None else None
            clarify = answers.clarifying(clarify) if clarify is not None else None
        if clarify is None and self._takes_answers:
            clarify = _ask
        return Planner(
            model,
            roles=worker.roles,
            approve=approve,
            clarify=clarify,
            templates=self._options.get("templates", ()),
        )

    def _executor(self, state: AgentState, hooks: HookRunner, planner: PlanSource, worker: AgentWorker) -> PlanExecutor:
        async def on_event(event: PlanEvent) -> None:
            await self._report(state, event)

        async def combine(task: Task) -> str:
            if (known := planner.answer(task)) is not None:
                return known
            model = RunModel(state, hooks, is_shown=True)
            return (await model.generate(_synthesis_request(task, "", state.output))).text

        options: dict[str, Any] = {name: self._options[name] for name in _PASSED if name in self._options}
        executor = PlanExecutor(
            worker,
            planner=planner,
            on_event=on_event,
            budget=self._budget,
            takes_answers=self._takes_answers,
            combine=combine,
            **options,
        )
        if self._is_paused:
            executor.pause()
        return executor

    def pause(self) -> None:
        """Starts no further step, also before there is a plan."""
        self._is_paused = True
        if self.executor is not None:
            self.executor.pause()

    def resume(self) -> None:
        """Starts steps again after `pause`."""
        self._is_paused = False
        if self.executor is not None:
            self.executor.resume()

    async def _synthesise(self, state: AgentState, hooks: HookRunner, task: Task, answer: str | None) -> str:
        """Returns the answer that hooks and the goal check accept: the given one, or a single result, or else one that
        the model writes. Raises PlanFailed if they accept none, OutputMismatch if the last one does not match."""
        model = RunModel(state, hooks, is_shown=True)
        text, problem = only_result(task) if answer is None else answer, ""
        mismatch: OutputMismatch | None = None
        for _ in range(MAX_ANSWERS):
            if text is None:
                text = (await model.generate(_synthesis_request(task, problem, state.output))).text
            if state.output is not None:
                try:
                    text, mismatch = state.output.read(text), None
                except OutputMismatch as error:
                    text, mismatch, problem = None, error, repair_note(error.field_violations)
                    continue
            accepted = await accepted_answer(state, hooks, ChatMessage("assistant", text))
            text = None
            if accepted is None:
                continue
            verdict = await is_goal_reached(state, accepted.content)
            if verdict is True:
                state.history.append(accepted)
                return accepted.content
            problem = f"{GOAL_NOT_REACHED}: {verdict}" if verdict else f"{GOAL_NOT_REACHED}."
        if mismatch is not None:
            raise OutputMismatch.of(mismatch.field_violations, mismatch.text, state.agent_name)
        reason = f"the last one: {problem}" if problem else "by hooks"
        raise PlanFailed(f"{MAX_ANSWERS} answers to the query were refused, {reason}", (task,))

    async def _report(self, state: AgentState, event: PlanEvent) -> None:
        """Sets the phase, calls the handler of the options, and emits the event as AG-UI has it."""
        state.phase = _PHASES.get(event.kind, state.phase)
        await report(self._options.get("on_event"), event)
        if not state.emitter.handlers:
            return
        fields = state.event_fields()
        if event.kind is PlanEventKind.SUBTASK_STARTED and event.subtask is not None:
            await state.emitter.emit(events.StepStarted(step_name=event.subtask.id, **fields))
        await state.emitter.emit(events.Custom(name=f"plan.{event.kind}", value=_value(event), **fields))
        if event.kind in _ENDS and event.subtask is not None:
            await state.emitter.emit(events.StepFinished(step_name=event.subtask.id, **fields))


async def _ask(question: str) -> str:
    """Asks the person of the run for the answer to a question of the planner."""
    return (await ask_person(question)).text


def _continue_budget(state: AgentState, records: PlanRecords) -> None:
    """Has a budget begin with the spending of the process before, and notes the spending from here on."""
    storage, stored = state.global_storage, records.stored.spent
    if stored:
        # The storage has it already if it is the one of the process before.
        storage.compute(SPENT, lambda spent: tuple(map(max, spent, stored)), (0,) * len(stored))
    records.spent = lambda: storage.get(SPENT, ())


def _synthesis_request(task: Task, problem: str, output: TypedOutput | None) -> ModelRequest:
    prompt, data = synthesis_messages(task, problem)
    if output is None:
        return ModelRequest((prompt, data))
    return ModelRequest((prompt, output.note, data), output_schema=output.schema)


def _value(event: PlanEvent) -> dict[str, Any]:
    value: dict[str, Any] = {"message": event.message} if event.message else {}
    if event.question:
        value["question"] = event.question
    if event.subtask is not None:
        value |= _shown(event.subtask)
    if event.task is not None and event.kind in _WITH_PLAN:
        value |= {"goal": event.task.goal, "subtasks": progress_of(event.task)}
    return value


def _shown(subtask: SubTask) -> dict[str, Any]:
    return {"id": subtask.id, "description": subtask.description, "status": subtask.status.value}
