"""The plan of a fork: the parts of its run that a new one keeps, and the tasks that it executes, for given changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.lineage import RunLineage, UseKind
from archon.lineage.uses import EDIT_KEYS, EDITED_RUN_KEY, EDITED_SEQ_KEY, INPUT_PREFIX
from archon.run_view.task import EDITED_BY_KEY
from archon.types import RunEvent
from archon_mesh.engine import RunState, Task, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.decide.fork import reusable_plan, reused_number
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import Payload, Submission, TaskState
from archon_services.orchestrator.convert.breakpoints import edited_input
from archon_services.orchestrator.runs.states.changes import Asked, Changes, changes_of, identifies_request, invalid
from archon_services.orchestrator.runs.states.kept import Kept, answered_inputs
from archon_services.orchestrator.runs.states.load import fold_journal

Events = Sequence[run_pb2.RunEvent]

_UNSEEN: Final = 1 << 62
"""An event after all others."""


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """The plan of a fork. `kept` are the parts that the new run begins with, `state` its state then, and `sources` the
    tasks in the forked run of the new run's tasks. `plan_revision` is the revision of the plan that is kept, 0 if none
    is."""

    lineage: RunLineage
    changes: Changes
    submission: Submission
    kept: Kept
    state: RunState
    sources: Mapping[str, str]
    plan_revision: int


class ForkPlanner:
    """Plans the fork of a run from its `events`, up to the one to fork it at. With `is_kept` false nothing of it is
    kept but the edited answers; with `is_replanned` no plan, and no answers of people. `editor` is the identity that
    gives the edited answers."""

    def __init__(
        self, events: Events, asked: Asked, *, is_kept: bool = True, is_replanned: bool = False, editor: str = ""
    ) -> None:
        self._events = events
        self._editor = editor
        self._is_replanned = is_replanned
        self.state = fold_journal(events)
        self._lineage = lineage_of(events)
        self._changes = changes_of(asked, self._lineage)
        self._is_kept = is_kept
        self._before = self.state  # the state with the plan that is kept
        if self.state.plan is not None and (seq := self._first_affected_plan()) < _UNSEEN:
            self._before = fold_journal(events[: seq - 1])
        self._inputs = {**self._given_at_breakpoints(), **self._changes.inputs}

    def plan(self, submission: Submission) -> ForkPlan:
        """Returns the plan for a new run. Raises InvalidArgument if a change cannot be made."""
        plan = self._plan()
        submission = self._with_inputs(submission, plan)
        answers = self._answers(plan)
        kept = Kept(tuple(answers.values()), plan, self._people(), self._delegations(answers, plan))
        state = _begun(kept, submission)
        sources = self._sources(state, plan)
        taken = {source: state.tasks[task_id].result_seq for task_id, source in sources.items()}
        self._write_used(answers, kept.delegated, {id_: seq for id_, seq in taken.items() if seq}, submission)
        revision = self._before.plan.revision if plan is not None and self._before.plan is not None else 0
        return ForkPlan(self._lineage, self._changes, submission, kept, state, sources, revision)

    def _given_at_breakpoints(self) -> dict[str, str]:
        """The inputs that people gave at breakpoints to tasks that the new run executes, by the task. A planner plans
        for the goal, and a delegated task has the input of its request."""
        if self._is_replanned or not self._is_kept:
            return {}
        found: dict[str, str] = {}
        plan, changes = self.state.plan, self._changes
        for task in self.state.roots():
            is_reused = task.state is TaskState.COMPLETED and task.task_id not in changes.affected
            if task.edited is None or is_reused or task.task_id in changes.answers:
                continue
            text = edited_input(task.edited)
            if text is not None and (plan is None or plan.in_force(task)):
                found[task.task_id] = text
        return found

    # What is kept -----------------------------------------------------------------------------------------------

    def _first_affected_plan(self) -> int:
        """The event of the first plan that rests on a change; _UNSEEN if none does."""
        affected = self._changes.affected
        return next((each.seq for each in self._lineage.revisions if each.task_id in affected), _UNSEEN)

    def _plan(self) -> inp.ReusedPlan | None:
        state = self._before
        if state.plan is None or self._is_replanned:
            return None
        plan = reusable_plan(state, self._planner_payload(state))
        if plan is None:
            return None
        return replace(plan, plan=self._with_descriptions(plan))

    def _planner_payload(self, state: RunState) -> Payload:
        """The answer of the planner that made the first plan; None before there is one."""
        if state.plan is None or not state.plan.steps:
            return None
        return _plain(state.tasks[state.root_ids[0]])

    def _with_descriptions(self, plan: inp.ReusedPlan) -> Plan:
        texts = {self.state.tasks[id_].step_id: text for id_, text in self._inputs.items()}
        steps = tuple(
            replace(step, description=texts[step.id]) if step.id in texts else step for step in plan.plan.subtasks
        )
        return replace(plan.plan, subtasks=steps)

    def _with_inputs(self, submission: Submission, plan: inp.ReusedPlan | None) -> Submission:
        """The submission with the inputs of roles; the plan has the inputs of steps."""
        if not self._inputs:
            return submission
        goal = run_pb2.Submitted()
        if isinstance(submission.goal, run_pb2.Submitted):
            goal.CopyFrom(submission.goal)
        steps = {step.id for step in plan.plan.subtasks} if plan is not None else set()
        for task_id, text in self._inputs.items():
            task = self.state.tasks[task_id]
            if task.step_id and task.step_id not in steps and task_id in self._changes.inputs:
                raise invalid("edited_inputs", f"the plan of the new run has no step {task.step_id!r}")
            if not task.step_id:
                goal.metadata[f"{INPUT_PREFIX}{task.role}"] = text
        return replace(submission, goal=goal)

    def _answers(self, plan: inp.ReusedPlan | None) -> dict[str, inp.ReusedAnswer]:
        """The answers that are taken over, by the task in the forked run, in topological order."""
        found: dict[str, inp.ReusedAnswer] = {}
        for task in self._candidates(plan):
            now = self.state.tasks[task.task_id]
            if (parts := self._changes.answers.get(task.task_id)) is not None:
                found[task.task_id] = self._edited(now, parts)
            elif self._is_kept and now.state is TaskState.COMPLETED and task.task_id not in self._changes.affected:
                items = tuple(published.item for published in now.items if published.seq > now.result_seq)
                publish = self._publishes(now)
                found[task.task_id] = inp.ReusedAnswer(now.role, _plain(now), publish, items, now.step_id, now.winner)
        missing = [id_ for id_ in self._changes.answers if id_ not in found and not self.state.tasks[id_].parent]
        if missing:
            why = "it is made for another goal" if self._is_replanned else "what it rests on has changed"
            label = self._lineage.tasks[missing[0]].label
            raise invalid("edited_answers", f"the plan of the new run has no {label}: {why}")
        return found

    def _candidates(self, plan: inp.ReusedPlan | None) -> Iterator[Task]:
        """The tasks that the new run has too: the roots, or the tasks of the steps of its plan, and of the
        answer that combines them."""
        state = self._before
        if state.plan is None:
            yield from state.roots()
        elif plan is not None:
            plan_state = state.plan
            combining = plan_state.synthesis
            yield from (task for task in state.roots() if plan_state.in_force(task) or task.task_id == combining)

    def _owners(self, plan: inp.ReusedPlan | None) -> Iterator[Task]:
        """The tasks that the new run has too, with the planner's if that has yet to make the plan."""
        if self._before.plan is not None and not self._before.plan.steps:
            yield from self._before.roots()[:1]
        yield from self._candidates(plan)

    def _publishes(self, task: Task) -> bool:
        return not self._events[task.result_seq - 1].result.no_publish

    def _edited(self, task: Task, parts: Sequence[common_pb2.Part]) -> inp.ReusedAnswer:
        step = self._before.plan.steps.get(task.step_id) if self._before.plan is not None else None
        publish = self._publishes(task) if task.result_seq else step is None or not step.decision
        role = task.role or (step.role if step is not None else "")
        return inp.ReusedAnswer(role, self._edited_payload(task, parts), publish, (), task.step_id)

    def _edited_payload(self, task: Task, parts: Sequence[common_pb2.Part]) -> agent_pb2.TaskResult:
        result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=parts)
        result.metadata[EDITED_BY_KEY] = self._editor
        result.metadata[EDITED_RUN_KEY] = self._lineage.run_id
        result.metadata[EDITED_SEQ_KEY] = str(task.result_seq)
        return result

    def _people(self) -> tuple[inp.ReusedInput, ...]:
        if self._is_replanned or not self._is_kept:
            return ()
        kept = answered_inputs(self.state, self._events, self._changes.affected)
        edited = {(self.state.tasks[id_].role, self.state.tasks[id_].step_id) for id_ in self._changes.answers}
        return tuple(answer for answer in kept if (answer.role, answer.step_id) not in edited)

    # Delegations ------------------------------------------------------------------------------------------------

    def _delegations(
        self, answers: Mapping[str, inp.ReusedAnswer], plan: inp.ReusedPlan | None
    ) -> tuple[inp.ReusedDelegation, ...]:
        found: list[inp.ReusedDelegation] = []
        self._children: list[str] = []
        if self._is_kept or self._changes.answers:
            for task in self._owners(plan):
                if task.task_id not in answers:
                    self._delegated_by(self.state.tasks[task.task_id], task.step_id or task.role, -1, found)
        missing = [id_ for id_ in self._changes.answers if id_ not in answers and id_ not in self._children]
        if missing:
            label = self._lineage.tasks[missing[0]].label
            raise invalid("edited_answers", f"the new run has no {label}: no task that it executes delegates to it")
        return tuple(found)

    def _delegated_by(self, task: Task, owner: str, parent: int, found: list[inp.ReusedDelegation]) -> None:
        """Adds the delegations of a task that is executed anew: those that have been answered, and those whose own
        delegations have been, unless the key does not tell whether the task would request the same."""
        for key, child_id in task.children.items():
            child, request = self.state.tasks[child_id], self._request(child_id)
            if request is None:
                continue
            edited = self._changes.answers.get(child_id)
            is_answered = edited is not None or (
                self._is_kept and child.state is TaskState.COMPLETED and child_id not in self._changes.affected
            )
            position, size = len(found), len(self._children)
            result = self._edited_payload(child, edited) if edited is not None else _plain(child)
            found.append(
                inp.ReusedDelegation(
                    owner if parent < 0 else "",
                    child.role,
                    key,
                    parent,
                    child.capability,
                    child.timeout,
                    child.budget,
                    is_answered,
                    not child.result_seq or self._publishes(child),
                    tuple(each.item for each in child.items if each.seq > child.result_seq) if is_answered else (),
                    request,
                    result if is_answered else None,
                )
            )
            self._children.append(child_id)
            if is_answered:
                continue
            if identifies_request(key) or task.task_id not in self._changes.affected:
                self._delegated_by(child, "", position, found)
            if len(found) == position + 1:  # nothing below it has been answered
                del found[position:], self._children[size:]

    def _request(self, child_id: str) -> run_pb2.Delegated | None:
        """The request of a delegated task, without the parts of its attempt."""
        payload = self.state.tasks[child_id].payload_in
        if not isinstance(payload, run_pb2.Delegated):
            return None
        request = run_pb2.Delegated()
        request.CopyFrom(payload)
        for name in ("checkpoint", "trace"):
            request.ClearField(name)
        return request

    # References -------------------------------------------------------------------------------------------------

    def _sources(self, state: RunState, plan: inp.ReusedPlan | None) -> dict[str, str]:
        """The tasks in the forked run of the new run's tasks, by the ids of the new ones."""
        before = self._before
        if state.plan is None:
            ids = {task.role: task.task_id for task in before.roots()}
            found = {task.task_id: ids[task.role] for task in state.roots() if task.role in ids}
        else:
            found = dict(zip(state.root_ids[:1], before.root_ids[:1], strict=False))
            if plan is not None and before.plan is not None:
                known = before.plan.tasks
                found |= {id_: known[step] for step, id_ in state.plan.tasks.items() if step in known}
                if state.plan.synthesis and before.plan.synthesis:
                    found[state.plan.synthesis] = before.plan.synthesis
        for task in state.tasks.values():
            for id_, delegation in task.delegations.items():
                found[delegation.child] = self._children[reused_number(id_)]
        return found

    def _write_used(
        self,
        answers: Mapping[str, inp.ReusedAnswer],
        delegated: Sequence[inp.ReusedDelegation],
        seqs: Mapping[str, int],
        submission: Submission,
    ) -> None:
        """Writes into each answer that is taken over its sources, by the events of the new run."""
        payloads = {task_id: answer.payload for task_id, answer in answers.items()}
        payloads |= {child: each.result for child, each in zip(self._children, delegated, strict=True)}
        for task_id, payload in payloads.items():
            if isinstance(payload, agent_pb2.TaskResult) and task_id not in self._changes.answers:
                self._write_refs(task_id, payload, seqs, submission)

    def _write_refs(
        self, task_id: str, result: agent_pb2.TaskResult, seqs: Mapping[str, int], submission: Submission
    ) -> None:
        refs = [ref.proto for ref in self._lineage.outside(task_id)]
        waiting, seen = [task_id], {task_id}
        while waiting:
            of = waiting.pop()
            for use in self._lineage.uses(of):
                if use.kind is UseKind.PLAN or use.task_id in seen:
                    continue
                seen.add(use.task_id)
                role = self._lineage.tasks[use.task_id].role
                if seq := seqs.get(use.task_id, 0):
                    scope = submission.scope
                    refs.append(common_pb2.MemoryRef(scope=scope, role=role, run_id=submission.run_id, seq=seq))
                elif use.kind in (UseKind.ANSWER, UseKind.DELEGATION):  # named, and its own sources too
                    refs.append(common_pb2.MemoryRef(role=role, run_id=self._lineage.run_id, seq=use.seq))
                    waiting.append(use.task_id)
        del result.used[:]
        result.used.extend(refs)


def lineage_of(events: Events) -> RunLineage:
    """Returns the lineage of a run after these events."""
    lineage = RunLineage()
    for event in events:
        lineage.apply(RunEvent(event))
    return lineage


def _begun(kept: Kept, submission: Submission) -> RunState:
    """The state of the new run after its first step."""
    state = RunState()
    for event in decide(state, kept.submit(submission), 0.0):
        apply(state, event, 0.0)
    return state


def _plain(task: Task) -> Payload:
    """The result of a task without its usage, which the new run has not spent; and, if an attempt made it, without the
    metadata that only a fork writes."""
    if not isinstance(task.payload, agent_pb2.TaskResult):
        return task.payload
    result = agent_pb2.TaskResult()
    result.CopyFrom(task.payload)
    result.ClearField("usage")
    if task.attempt:
        for key in EDIT_KEYS:
            result.metadata.pop(key, "")
    return result
