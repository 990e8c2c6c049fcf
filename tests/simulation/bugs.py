"""Bugs to plant in the real code, at least one for each line of the validator, which must catch it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from archon.agent.attempt import Attempt
from archon.agent.attempt_table import AttemptTable
from archon.agent.inbox import Inbox
from archon.agent.work_item import Entry, WorkItem
from archon.agent.work_list import WorkList
from archon.api.agent.v1 import session_pb2
from archon.tools.owner.kept_results import KeptResults
from archon.tools.owner.leases import LeaseTable
from archon.types import Message
from archon_mesh.core.people import Decision
from archon_mesh.engine import Event, LocalRun, RunState, Task, decisions, effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import encode_inputs
from archon_mesh.engine.decide import approval, engine, join, plan_edit, plan_reply, results
from archon_mesh.engine.decide import attempts as decide_attempts
from archon_mesh.engine.decide import human_input as decide_human_input
from archon_mesh.engine.decide import messages as decide_messages
from archon_mesh.engine.decide import plan as decide_plan
from archon_mesh.engine.decide.delegation import delegate
from archon_mesh.engine.decisions import Resolution
from archon_mesh.engine.fold import apply as fold_table
from archon_mesh.engine.fold import plan as fold_plan
from archon_mesh.engine.local_run import attempt_lost
from archon_mesh.engine.message import SentMessage
from archon_mesh.engine.plan import SubTask, SubTaskStatus, expanded
from archon_mesh.engine.plan import Task as PlanTask
from archon_mesh.engine.question import OpenQuestion
from archon_mesh.engine.types import TaskState
from archon_mesh.planning import PlanExecutor
from archon_services.orchestrator.dispatch import assign_task as assignment
from archon_services.orchestrator.dispatch import decision as dispatch_decision
from archon_services.orchestrator.dispatch import replies
from archon_services.orchestrator.journal import MemoryJournal, RunRow
from archon_services.orchestrator.journal.memory.owners import MemoryOwners
from archon_services.orchestrator.ownership import Ownership
from archon_services.orchestrator.runs import driver
from archon_services.orchestrator.runs import effects as orchestrator_effects
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.turn import decider, step
from archon_services.orchestrator.runs.turn.session_history import SessionHistory
from archon_services.orchestrator.watch.hub import WatchHub
from tests.simulation import people

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    """A bug, the line of the validator that catches it, and the course in which it is looked for. `message`: a pattern
    for the text of the violation."""

    line: str
    plant: Plant
    course: str = "plain"
    message: str = ""

    @property
    def violation(self) -> str:
        """A pattern that matches the violation from its beginning."""
        return f"^{self.line}:.*{self.message}"


def _request_ids_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = MemoryJournal._create

    def create(self: MemoryJournal, *arguments: Any) -> Any:
        self._requests.clear()
        return real(self, *arguments)

    patch.setattr(MemoryJournal, "_create", create)


def _claim_without_an_epoch(patch: pytest.MonkeyPatch) -> None:
    async def claim(self: MemoryOwners, run_id: str, owner: str) -> RunRow | None:
        row = self._rows.get(run_id)
        if row is None or row.ended_at or (row.owner != owner and row.owner in self._living):
            return None
        self._rows[run_id] = claimed = replace(row, owner=owner)
        return claimed

    patch.setattr(MemoryOwners, "claim", claim)


def _superseded_attempts_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunState, "current", lambda run, name, attempt: run.tasks.get(name))


def _ended_attempts_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttemptTable, "is_over", lambda table, ref: False)


def _effects_before_durability(patch: pytest.MonkeyPatch) -> None:
    real = driver.RunDriver.decide

    def hasty(self: driver.RunDriver) -> Any:
        step = real(self)
        if step is not None and self._decision is not None:
            self._execute(self._decision)
        return step

    patch.setattr(driver.RunDriver, "decide", hasty)


def _effects_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects, "_answers", lambda run, parent, child, opened: None)


def _input_not_stored(patch: pytest.MonkeyPatch) -> None:
    def careless(inputs: list[inp.Input], now: float) -> bytes:
        return encode_inputs([decided for decided in inputs if not isinstance(decided, inp.LostIn)], now)

    patch.setattr(step, "encode_inputs", careless)


def _heartbeats_never_checked(patch: pytest.MonkeyPatch) -> None:
    async def expire(self: MemoryOwners, owner: str, beat: int) -> bool:
        return False

    patch.setattr(MemoryOwners, "expire", expire)


def _lower_epochs_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttemptTable, "check_epoch", lambda table, ref, held: None)


def _memo_keys_ignored(patch: pytest.MonkeyPatch) -> None:
    def careless(run: RunState, task: Task, delegation: inp.DelegateIn) -> list[Event]:
        return delegate(run, replace(task, children={}), delegation)

    patch.setattr(engine, "delegate", careless)


def _cancels_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempt, "cancel", lambda attempt, over=False: None)


def _context_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assignment, "write_context_item", lambda run, context, item: None)


def _seen_events_read_again(patch: pytest.MonkeyPatch) -> None:
    real = WatchHub._stored
    patch.setattr(WatchHub, "_stored", lambda self, run_id, after: real(self, run_id, max(0, after - 1)))


def _budget_given_out_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine, "grant", lambda run, task, amount: amount)


def _lease_never_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ownership, "may_send", lambda self: True)


def _results_of_other_replicas_discarded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Runs, "_ask", lambda self, run_id, receipt: receipt.discard("UNKNOWN_RUN"))


def _no_timer_after_a_question(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects, "_stops_asking", lambda run, task_id: False)


def _turns_without_a_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryJournal, "_version", lambda self, turn: 0)


def _last_turn_left_out(patch: pytest.MonkeyPatch) -> None:
    turns = SessionHistory.turns
    patch.setattr(SessionHistory, "turns", lambda self, task_id: turns(self, task_id)[:-1])


def _turns_not_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "_turns", lambda run, events: ())


def _unstored_tasks_expected(patch: pytest.MonkeyPatch) -> None:
    release = SessionHistory.release

    def release_all(self: SessionHistory, run: RunState) -> None:
        assert set(self._entries) <= set(run.tasks)
        release(self, run)

    patch.setattr(SessionHistory, "release", release_all)


def _finished_steps_redone(patch: pytest.MonkeyPatch) -> None:
    def keeps(task: Task, *, edited: bool = False) -> bool:
        return not task.ended and task.attempt > 0 and not task.stopping

    patch.setattr(decide_plan, "keeps_task", keeps)
    patch.setattr(fold_plan, "keeps_task", keeps)


def _dependants_start_at_once(patch: pytest.MonkeyPatch) -> None:
    ready = RunState.ready

    def careless(run: RunState, task: Task, *, paused: bool | None = None) -> bool:
        missing, task.missing = task.missing, 0 if task.step_id else task.missing
        try:
            return ready(run, task, paused=paused)
        finally:
            task.missing = missing

    patch.setattr(RunState, "ready", careless)


def _edits_end_what_has_begun(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan_edit, "_touched", lambda run, plan: [])


def _expansions_drop_what_runs(patch: pytest.MonkeyPatch) -> None:
    def careless(old: PlanTask, reply: PlanTask, places: Sequence[str]) -> PlanTask:
        merged = expanded(old, reply, places)
        subtasks = tuple(step for step in merged.subtasks if step.status is not SubTaskStatus.EXECUTING)
        return replace(merged, subtasks=subtasks)

    patch.setattr(plan_reply, "expanded", careless)


def _checks_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine, "without_outdated_check", lambda run, decided: decided)


def _ids_are_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide_plan, "_continues", lambda run, step: True)


def _results_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decider, "with_checked_result", lambda run, given: given)


def _approved_results_made_again(patch: pytest.MonkeyPatch) -> None:
    real = approval.decided

    def decided(
        run: RunState, task: Task, before: Sequence[ev.Event], given: ev.InputGiven, *replaced: Any, **more: Any
    ) -> list[ev.Event]:
        if task.held is not None and task.held.failure is None and given.decision is Decision.APPROVE:
            return [*before, given]
        return real(run, task, before, given, *replaced, **more)

    patch.setattr(decide_human_input, "decided", decided)


def _gates_hold_back_no_step(patch: pytest.MonkeyPatch) -> None:
    ready = RunState.ready

    def careless(run: RunState, task: Task, *, paused: bool | None = None) -> bool:
        missing = task.missing
        task.missing -= sum(run.tasks[task_id].held is not None for task_id in task.predecessors)
        try:
            return ready(run, task, paused=paused)
        finally:
            task.missing = missing

    patch.setattr(RunState, "ready", careless)


def _time_outs_move_no_deadline(patch: pytest.MonkeyPatch) -> None:
    def timed_out(run: RunState, event: ev.QuestionTimedOut, time: float) -> None:
        asking = run.tasks[event.task_id].asking
        if asking is not None:
            asking.level = 0

    patch.setitem(fold_table._FOLD, ev.QuestionTimedOut, timed_out)


def _anyone_may_answer(patch: pytest.MonkeyPatch) -> None:
    answers = people.answers

    def from_strangers(*arguments: Any) -> list[tuple[str, Any]]:
        return [(people.STRANGER, request) for _, request in answers(*arguments)]

    patch.setattr(OpenQuestion, "approvers", ())
    patch.setattr(people, "answers", from_strangers)


def _acts_before_durability(patch: pytest.MonkeyPatch) -> None:
    real = LocalRun._flush

    def late(self: LocalRun) -> None:
        asyncio.get_running_loop().call_later(0.001, real, self)

    patch.setattr(LocalRun, "_flush", late)


def _tools_called_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlanExecutor, "_recovered", lambda self, run, task: attempt_lost(run, task))


def _attempts_of_the_dead_awaited(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalRun, "_recovery", lambda run: (inp.Claim(run.state.owner, run.state.epoch + 1),))


def _rules_ignore_the_votes(patch: pytest.MonkeyPatch) -> None:
    real = decisions.resolve

    def last(*arguments: Any) -> Resolution:
        made = real(*arguments)
        return replace(made, winner=made.votes[-1].step_id if made.winner else "")

    patch.setattr(dispatch_decision, "resolve", last)


def _stopped_steps_complete(patch: pytest.MonkeyPatch) -> None:
    real = results._stopped

    def late(run: RunState, task: Task, result: inp.ResultIn) -> ev.Event:
        if result.state is not TaskState.COMPLETED:
            return real(run, task, result)
        return ev.ResultReceived(
            task.task_id, task.attempt, task.role, result.state, result.payload, publish=False, spent=result.spent
        )

    patch.setattr(results, "_stopped", late)


def _needed_steps_stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(join, "_needs_no_more", lambda run, task, satisfied: True)


def _one_result_is_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        SubTask,
        "needed",
        property(lambda step: min(1, len(step.dependencies)) if step.quorum else len(set(step.dependencies))),
    )


def _awards_ignored(patch: pytest.MonkeyPatch) -> None:
    def own_role(run: RunState, task: Task) -> tuple[str, str]:
        return task.role, ""

    patch.setattr(effects, "assignee", own_role)
    patch.setattr(decide_attempts, "assignee", own_role)


def _results_after_their_time(patch: pytest.MonkeyPatch) -> None:
    real = results.result

    def late(run: RunState, given: inp.ResultIn, now: float) -> list[ev.Event]:
        task = run.tasks.get(given.task_id)
        if task is not None and task.failure is not None and task.failure.reason == "STEP_TIMEOUT":
            return [ev.ResultReceived(task.task_id, given.attempt, task.role, TaskState.COMPLETED, given.payload)]
        return real(run, given, now)

    patch.setitem(engine._DECIDE, inp.ResultIn, late)


def _messages_left_out(patch: pytest.MonkeyPatch) -> None:
    real = SentMessage.is_for
    patch.setattr(SentMessage, "is_for", lambda message, *task: message.seq % 3 > 0 and real(message, *task))


def _messages_read_again(patch: pytest.MonkeyPatch) -> None:
    real = Inbox.put

    def put(self: Inbox, message: Message) -> None:
        self._seen.clear()
        real(self, message)

    patch.setattr(Inbox, "put", put)


def _messages_sent_anew(patch: pytest.MonkeyPatch) -> None:
    real = decide_messages.send
    patch.setattr(engine, "send", lambda run, task, request: real(run, replace(task, sent={}), request))


def _refused_messages_confirmed(patch: pytest.MonkeyPatch) -> None:
    real = replies.message_result

    def confirm(task: Task, seq: int) -> session_pb2.OrchestratorFrame:
        frame = real(task, seq)
        frame.message_result.ClearField("failure")
        return frame

    patch.setattr(orchestrator_effects, "message_result", confirm)


def _claims_ignored(patch: pytest.MonkeyPatch) -> None:
    def is_free(self: WorkList, id_: str) -> bool:
        return not self._entries[id_][0].has_ended and id_ not in self._held

    patch.setattr(WorkList, "_is_free", is_free)


def _late_results_count(patch: pytest.MonkeyPatch) -> None:
    async def end(self: WorkList, item: WorkItem, change: Callable[[Entry], Entry]) -> None:
        current = await self._refresh(item.id)
        assert current is not None
        await self._write(item.id, change(current[0]), current[1])
        self._held.pop(item.id, None)

    patch.setattr(WorkList, "_end", end)


def _first_items_only(patch: pytest.MonkeyPatch) -> None:
    async def is_complete(self: WorkList) -> bool:
        return all(self._has_ended(id_) for id_ in (self._ids or ())[:3])

    patch.setattr(WorkList, "_is_complete", is_complete)


def _expired_leases_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseTable, "find", lambda table, lease_id: table._leases[lease_id])


def _keys_of_calls_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptResults, "find", lambda kept, key, digest: None)


BUGS: Final[dict[str, Bug]] = {
    "request ids are forgotten": Bug("V1", _request_ids_forgotten),
    "a claim takes no new epoch": Bug("V2", _claim_without_an_epoch),
    "a superseded attempt's result counts": Bug("V3", _superseded_attempts_count),
    "an agent forgets which attempts have ended": Bug("V4", _ended_attempts_forgotten),
    "effects leave before their event is durable": Bug("V5", _effects_before_durability),
    "an input is decided and not stored": Bug("V6", _input_not_stored),
    "effects of a step are left out": Bug("V6", _effects_left_out),
    "a driver fails over a task whose step was not stored": Bug(
        "V6", _unstored_tasks_expected, "stateful", message="the driver of .* failed"
    ),
    "heartbeats are never checked": Bug("V7", _heartbeats_never_checked),
    "no timer is set when a question is left open": Bug("V7", _no_timer_after_a_question),
    "an agent accepts lower epochs": Bug("V8", _lower_epochs_accepted),
    "a result of another replica's run is thrown away": Bug("V8", _results_of_other_replicas_discarded),
    "memo keys are ignored": Bug("V9", _memo_keys_ignored),
    "agents ignore cancels": Bug("V10", _cancels_ignored),
    "the context is left out": Bug("V11", _context_left_out),
    "a watcher reads again what it has seen": Bug("V12", _seen_events_read_again),
    "the budget is granted twice": Bug("V13", _budget_given_out_twice),
    "the lease is never checked": Bug("D11", _lease_never_checked),
    "turns are stored without a check of their version": Bug("V17", _turns_without_a_version, "stateful"),
    "the last turn of a conversation is left out": Bug("V17", _last_turn_left_out, "stateful"),
    "turns are not stored": Bug("V17", _turns_not_stored, "stateful"),
    "a new plan does finished steps again": Bug("V18", _finished_steps_redone, "plans"),
    "a step does not wait for the steps that it depends on": Bug("V19", _dependants_start_at_once, "plans"),
    "an edit ends steps that have begun": Bug("V20", _edits_end_what_has_begun, "plans"),
    "an approved result is made again": Bug("V21", _approved_results_made_again, "plans with people"),
    "a gate holds back no step": Bug("V22", _gates_hold_back_no_step, "plans with people"),
    "a question that timed out moves no deadline": Bug("V23", _time_outs_move_no_deadline, "plans with people"),
    "anyone may answer": Bug("V24", _anyone_may_answer, "plans with people"),
    "an expansion drops steps that run": Bug("V25", _expansions_drop_what_runs, "plans"),
    "results of steps are not checked": Bug("V26", _results_unchecked, "plans"),
    "a new step takes over the task of another with its id": Bug("V27", _ids_are_enough, "plans"),
    "a check of a plan goes on beside a replan": Bug("V28", _checks_go_on, "plans that are checked"),
    "a step starts with one result whatever its quorum": Bug("V19", _one_result_is_enough, "plans with quorums"),
    "a rule chooses the last result": Bug("V29", _rules_ignore_the_votes, "plans with quorums"),
    "a stopped step's late result counts": Bug("V30", _stopped_steps_complete, "plans with quorums"),
    "a step that others need is stopped": Bug("V31", _needed_steps_stopped, "plans with quorums"),
    "each third message is delivered to no attempt": Bug("V32", _messages_left_out, "agents with messages", "read"),
    "a message that comes again is read again": Bug("V32", _messages_read_again, "agents with messages", "twice"),
    "a later attempt sends its messages anew": Bug("V33", _messages_sent_anew, "agents with messages"),
    "a refused message is confirmed": Bug("V34", _refused_messages_confirmed, "agents with messages"),
    "the winner of an award is not assigned": Bug("V35", _awards_ignored, "auctions"),
    "a result after the time of its step counts": Bug("V36", _results_after_their_time, "auctions"),
    "a claim of a living member is ignored": Bug("V37", _claims_ignored, "work lists"),
    "a late result of an item counts": Bug("V38", _late_results_count, "work lists"),
    "a member asks for the first items of a list only": Bug("V39", _first_items_only, "work lists"),
    "a lease of a tool is used after its end": Bug("V40", _expired_leases_used, "leases of tools"),
    "the key of a call of a tool is forgotten": Bug("V41", _keys_of_calls_forgotten, "leases of tools"),
    "a process acts before its journal is written": Bug("V5", _acts_before_durability, "plans in processes"),
    "a tool that may have acted is called again": Bug("V4", _tools_called_again, "plans in processes", "acted again"),
    "attempts of a dead process are awaited": Bug("V7", _attempts_of_the_dead_awaited, "plans in processes"),
}
