"""Forks a run: which answers a new run takes over, and the events that record them in its own journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.plan import ask_for_expansion, new_tasks, without_statuses
from archon_mesh.engine.decide.task_end import end_with_result
from archon_mesh.engine.fold.apply import apply
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.plan_progress import due_expansions
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Payload, Submission, TaskState

_REUSED_ID = "reused-"
"""Begins the ids of delegations that were taken over."""

REUSED_ATTEMPT = 0
"""The attempt of a result that no attempt of its run produced: it was taken over from the forked run."""


def reusable_plan(source: RunState, payload: Payload) -> inp.ReusedPlan | None:
    """The plan in force, None if there is none. Failed steps whose place others have taken are left out. `payload` is
    the answer of the planner."""
    state = source.plan
    if state is None or not state.steps:
        return None
    gone = {id_ for id_ in state.handled if source.tasks[state.tasks[id_]].state is not TaskState.COMPLETED}
    steps = tuple(
        replace(step, dependencies=tuple(id_ for id_ in step.dependencies if id_ not in gone))
        for step in state.steps.values()
        if step.id not in gone
    )
    return inp.ReusedPlan(without_statuses(Plan("", "", state.goal, steps, state.context)), state.changes, payload)


def reused_plan(submit: inp.Submit, created: Sequence[ev.Event], now: float) -> list[ev.Event]:
    """The `created` events of a run, followed by its plan, the results of the reused answers and the events that
    follow, as if they had come one after the other."""
    reused, run, events = submit.plan, RunState(), list[ev.Event]()
    assert reused is not None

    def add(*more: ev.Event) -> None:
        for event in more:
            apply(run, event, now)
            events.append(event)

    add(*created)
    (planner,) = run.root_ids
    role = submit.submission.roles[0]
    add(ev.ResultReceived(planner, REUSED_ATTEMPT, role, TaskState.COMPLETED, reused.payload))
    add(ev.Planned(planner, 1, reused.plan, reused.changes))
    steps, _ = new_tasks(run, reused.plan, {})
    add(*steps)
    answers = {answer.step_id: answer for answer in submit.reused}
    combined = answers.pop("", None)
    for step in steps:
        assert isinstance(step, ev.TaskCreated)
        if (answer := answers.get(step.step_id)) is not None and run.ending is None:
            add(*_reused(run, run.tasks[step.task_id], answer))
    assert run.plan is not None
    if run.ending is None and not run.plan.planner and due_expansions(run):
        add(*ask_for_expansion(run, [], (), 0))
    if combined is not None and run.plan.synthesis:
        add(*_reused(run, run.tasks[run.plan.synthesis], combined))
    task_ids = dict(run.plan.tasks)
    if submit.delegated and run.ending is None:
        run_id, count = submit.submission.run_id, len(run.tasks)
        open_tasks = {step: id_ for step, id_ in run.plan.tasks.items() if not run.tasks[id_].ended}
        add(*reused_delegations(submit.delegated, open_tasks, lambda number: f"{run_id}.{count + number}"))
    return [*events, *reused_inputs(submit.answered, lambda answer: task_ids.get(answer.step_id, ""))]


def _reused(run: RunState, task: Task, answer: inp.ReusedAnswer) -> list[ev.Event]:
    """The result of a reused answer, and the events that follow."""
    result = ev.ResultReceived(
        task.task_id,
        REUSED_ATTEMPT,
        answer.role,  # another one than the step's if a decision had assigned it
        TaskState.COMPLETED,
        answer.payload,
        publish=answer.publish,
        winner=answer.winner,
    )
    items = [ev.ItemPublished(task.task_id, REUSED_ATTEMPT, answer.role, 0, item) for item in answer.items]
    events = end_with_result(run, task, [result, *items], result, None)
    # The next step that is executed has the plan checked.
    return [event for event in events if not (isinstance(event, ev.TaskCreated) and event.align)]


def reused_delegations(
    delegated: Sequence[inp.ReusedDelegation], owners: Mapping[str, str], new_id: Callable[[int], str]
) -> list[ev.Event]:
    """The delegations that tasks executed anew find, each with its task, and the answer of that if it has completed.
    `owners` are the run's tasks by role, or by step; `new_id` returns the id of the n-th task that is added, from 1."""
    events: list[ev.Event] = []
    children: list[str] = []
    added = 0
    for number, each in enumerate(delegated, 1):
        owner = owners.get(each.owner, "") if each.parent < 0 else children[each.parent]
        if not owner:
            children.append("")
            continue
        added += 1
        child = new_id(added)
        children.append(child)
        events.append(
            ev.Delegated(
                owner,
                REUSED_ATTEMPT,
                f"{_REUSED_ID}{number}",
                child,
                each.role,
                each.memo_key,
                0,
                each.capability,
                each.timeout,
                each.budget,
                payload=each.payload,
            )
        )
        events.append(ev.TaskCreated(child, each.role, owner))
        if each.completed:
            state = TaskState.COMPLETED
            events.append(ev.ResultReceived(child, REUSED_ATTEMPT, each.role, state, each.result, publish=each.publish))
            events += [ev.ItemPublished(child, REUSED_ATTEMPT, each.role, 0, item) for item in each.items]
    return events


def reused_number(delegation_id: str) -> int:
    """Returns the position, among the reused delegations, of the one with this id."""
    return int(delegation_id.removeprefix(_REUSED_ID)) - 1


def reused_inputs(answered: Iterable[inp.ReusedInput], task_of: Callable[[inp.ReusedInput], str]) -> Iterator[ev.Event]:
    """The questions that people have answered already, each with its answer, as events of the tasks that would ask
    them again. `task_of` returns the id of the task, empty if there is none."""
    for answer in answered:
        if task_id := task_of(answer):
            input_id = f"{task_id}/{answer.input_id}"
            yield ev.InputRequested(
                task_id,
                REUSED_ATTEMPT,
                answer.role,
                input_id,
                answer.payload,
                checkpointed=answer.checkpointed,
                kind=answer.kind,
            )
            yield ev.InputGiven(
                task_id, input_id, answer.identity, answer.request_id, answer.digest, answer.result, answer.decision
            )


def reused_results(
    submission: Submission, task_ids: Mapping[str, str], reused: Iterable[inp.ReusedAnswer], seq: int
) -> list[ev.Event]:
    """The results of the reused answers, as the events after event `seq`; followed by the end of the run if no task is
    left. `task_ids` are the tasks of the run's roles."""
    answers = {answer.role: answer for answer in reused if answer.role in task_ids}
    results: list[ev.Event] = [
        ev.ResultReceived(
            task_ids[role], REUSED_ATTEMPT, role, TaskState.COMPLETED, answer.payload, publish=answer.publish
        )
        for role, answer in answers.items()
    ]
    results += [
        ev.ItemPublished(task_ids[role], REUSED_ATTEMPT, role, 0, item)
        for role, answer in answers.items()
        for item in answer.items
    ]
    if len(answers) < len(submission.roles):
        return results
    seqs = {role: number for number, role in enumerate(answers, seq + 1)}
    inner = {edge.upstream for edge in submission.edges if edge.downstream in task_ids}
    sinks = tuple(seqs[role] for role in submission.roles if role not in inner)
    return [*results, ev.RunEnded(TaskState.COMPLETED, None, sinks)]
