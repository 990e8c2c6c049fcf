"""Runs with a plan in the simulation: random planners, steps that fail, expansions, checks, edits; and lines 18 to 20
and 25 to 28 of docs/durability.md, which their journals have to hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, cast

from archon.agent import PlanRequest, TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import text_of
from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import MAX_ALIGNMENT_CHECKS, SubTask
from archon_mesh.engine.plan_state import keeps_task
from archon_mesh.engine.types import PlanTarget, Submission, TaskState
from archon_services.orchestrator.convert.plan import target_from_proto
from tests.simulation.auctions import add_auctions, validate_auctions
from tests.simulation.check import Book, must
from tests.simulation.faults import Dice
from tests.simulation.joins import add_joins, validate_joins

if TYPE_CHECKING:
    from tests.simulation.world import World

MOST_STEPS = 6
EXPECTED = '{"type": "object", "required": ["ok"]}'


def planned_submission(number: int, roles: Sequence[str], timeout: float) -> Submission:
    """Returns the submission of a run with a plan; each role has a tool of its own."""
    goal = run_pb2.Submitted()
    goal.goal.add(text=f"goal {number}")
    for role in roles:
        target = goal.plan_targets.add(role=role, description=f"does {role}")
        target.tools.add(name=f"tool of {role}")
    targets: tuple[PlanTarget, ...] = tuple(target_from_proto(target) for target in goal.plan_targets)
    return Submission("", "default", f"q{number}", "", "plan", ("planner",), (), timeout, goal, targets=targets)


def reply_of(task: TaskContext, dice: Dice, *, joins: bool = False, auctions: bool = False) -> str:
    """Returns the reply of a planner: a random plan, at times a wrong one; that the plan is aligned; or the
    synthesis."""
    request = task.plan_request
    assert request is not None
    if request.synthesise:
        return f"synthesis<{'|'.join(item.text for item in task.context)}>"
    if dice.fault("planner's reply is no plan", 0.05):
        return "I cannot."
    if request.align and dice.random.random() < 0.7:
        dice.fired["plan found aligned"] += 1
        return '{"aligned": true}'
    if request.align:
        dice.fired["plan found misaligned"] += 1
    elif request.expand:
        dice.fired["plan expanded"] += 1
    elif request.revision > 1:
        dice.fired["plan made anew"] += 1
    steps = _random_steps(dice.random, request, most_dependencies=4 if joins else 2)
    if joins:
        add_joins(dice.random, steps)
    if auctions:
        add_auctions(dice.random, steps, [target.role for target in request.targets])
    if len(steps) > 1 and dice.fault("planner's reply has a cycle", 0.05):
        steps[0]["dependencies"].append(steps[-1]["id"])
        steps[-1]["dependencies"].append(steps[0]["id"])
    return json.dumps({"goal": "goal", "subtasks": steps, **({"reason": "it strays"} if request.align else {})})


def _random_steps(random: Random, request: PlanRequest, *, most_dependencies: int) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    known = [step.step_id for step in request.proto.previous.steps] if request.expand else []
    least, targets = 0 if request.expand else 1, request.targets
    for number in range(random.randint(least, MOST_STEPS)):
        target = random.choice(targets)
        earlier = known + [step["id"] for step in steps]
        dependencies = random.sample(earlier, min(len(earlier), random.randint(0, most_dependencies)))
        step: dict[str, Any] = {
            "id": f"s{random.randint(1, 9)}x{number}",
            "description": f"do the goal {random.randint(1, 3)}",
            "dependencies": dependencies,
            "role": target.role,
            "critical": random.random() < 0.3,
            "partial_input": random.random() < 0.3,
            "expand": random.random() < 0.12,
            "expand_on_failure": random.random() < 0.2,
        }
        if request.expand and random.random() < 0.3:
            step["id"] = random.choice(known)  # of a step that has begun, or takes the place of one that waits
        if random.random() < 0.2:
            step["expected_output"] = EXPECTED
        if random.random() < 0.3:
            names = [f"{{{name}}}" for name in dependencies]
            step |= {"tool_name": target.tools[0].name, "tool_args": {"about": " and ".join(names) or "it"}}
        steps.append(step)
    return steps


def random_edit(random: Random, book: Book, run_id: str) -> pb.EditPlanRequest | None:
    """Returns an edit of the plan of a run; at times one that drops what has begun, or is late. None if there is no
    plan."""
    plan = book.state.plan
    if plan is None or not plan.steps:
        return None
    steps = [
        {
            "id": step.id,
            "description": step.description,
            "expected_output": step.expected_output,
            "tool_name": step.tool_name,
            "tool_args": dict(step.tool_args),
            "dependencies": list(step.dependencies),
            "role": step.role,
            "critical": step.critical,
            "partial_input": step.partial_input,
            "expand": step.expand,
            "expand_on_failure": step.expand_on_failure,
            "quorum": step.quorum,
            "delay_seconds": step.delay_seconds,
            "decision": step.decision,
            "timeout_seconds": step.timeout_seconds,
            "assigned_by": step.assigned_by,
            "bid_for": step.bid_for,
        }
        for step in plan.steps.values()
    ]
    careful = random.random() < 0.7
    waiting = [step for step in steps if not keeps_task(book.state.tasks[plan.tasks[str(step["id"])]], edited=True)]
    droppable = waiting if careful else steps
    if droppable and random.random() < 0.7:
        gone = random.choice(droppable)
        steps = [step for step in steps if step is not gone]
        for step in steps:
            if step in waiting:
                step["dependencies"] = [name for name in step["dependencies"] if name != gone["id"]]  # type: ignore[attr-defined]
    else:
        added = f"e{random.randint(1, 99)}"
        steps.append({"id": added, "description": "do more", "dependencies": [], "role": "a"})
    seq = plan.seq if random.random() < 0.9 else max(1, plan.seq - 1)
    return pb.EditPlanRequest(
        run_id=run_id, expected_seq=seq, plan_json=json.dumps({"goal": plan.goal, "subtasks": steps})
    )


def validate_plans(world: World) -> None:
    """Checks lines 18 to 20, 25 to 31, 35 and 36 on the journals of all runs with a plan."""
    for book in world.check.books.values():
        if book.state.plan is not None:
            validate_steps(book, world.dice)
            validate_checks(book, world.dice)
            validate_joins(book, world.dice)
            validate_auctions(book, world.dice)


def validate_checks(book: Book, dice: Dice) -> None:
    """V28: the planner is asked about a plan while it has nothing else to do, and not too often."""
    open_tasks: dict[str, bool] = {}
    submission, checks = book.state.submission, 0
    for event in book.facts:
        if isinstance(event, (ev.ResultReceived, ev.TaskEnded, ev.TaskStopping)):
            dice.fired["check of a plan stopped"] += open_tasks.pop(event.task_id, False) and (
                isinstance(event, ev.TaskStopping)
            )
        elif isinstance(event, ev.Planned) and event.reason:
            dice.fired["plan replaced by a check"] += 1
        elif isinstance(event, ev.TaskCreated) and not (event.step_id or event.parent):
            must("V28", not (open_tasks and event.align), f"{event.task_id} checks a plan beside {[*open_tasks]}")
            must("V28", not any(open_tasks.values()), f"{event.task_id} was created beside the check {[*open_tasks]}")
            open_tasks[event.task_id] = event.align
            checks += event.align
    is_asked_for = submission is not None and submission.check_alignment
    must("V28", checks <= (MAX_ALIGNMENT_CHECKS if is_asked_for else 0), f"{checks} checks of the plan")


def validate_steps(book: Book, dice: Dice) -> None:
    """V18 to V20 and V25 to V27 on the journal of one run."""
    steps: dict[str, Any] = {}
    step_of: dict[str, str] = {}
    predecessors: dict[str, tuple[str, ...]] = {}
    completed_steps: set[str] = set()
    states: dict[str, TaskState] = {}
    began: set[str] = set()
    tasks: dict[str, str] = {}
    stopping: set[str] = set()
    roles: dict[str, str] = {}
    for position, event in enumerate(book.facts):
        if isinstance(event, ev.Planned):
            steps = {step.id: step for step in event.plan.subtasks}
            if event.edit_id:
                dice.fired["plan edited"] += 1
                _untouched("V20", book.facts[:position], event.revision, tasks, steps, began, states)
            if event.expansion:
                _untouched("V25", book.facts[:position], event.revision, tasks, steps, began, states)
            for id_ in steps.keys() & tasks.keys():
                if (task_id := tasks[id_]) in began and task_id not in states and task_id not in stopping:
                    given = {step_of[each] for each in predecessors[task_id]}
                    same = steps[id_].role == roles[task_id] and given.issuperset(steps[id_].dependencies)
                    must("V27", same, f"step {id_}, which {task_id} executes, has changed in revision {event.revision}")
        elif isinstance(event, ev.TaskCreated) and event.step_id:
            former = tasks.get(event.step_id, "")
            is_running = former in began and states.get(former) is None and former not in stopping
            must("V25", not is_running, f"step {event.step_id} is executed by {former} and by {event.task_id}")
            must("V18", event.step_id not in completed_steps, f"step {event.step_id} is redone by {event.task_id}")
            step_of[event.task_id], predecessors[event.task_id] = event.step_id, event.predecessors
            tasks[event.step_id], roles[event.task_id] = event.task_id, event.role
        elif isinstance(event, ev.TaskStopping):
            stopping.add(event.task_id)
        elif isinstance(event, ev.Dispatched):
            began.add(event.task_id)
            if event.task_id in step_of and event.attempt == 1:  # a later plan may have changed the step since
                _inputs(event, steps[step_of[event.task_id]], predecessors[event.task_id], states, stopping)
        elif isinstance(event, (ev.ResultReceived, ev.TaskEnded)):
            states[event.task_id] = event.state
            _expected(event, steps.get(step_of.get(event.task_id, "")), book.facts[position - 1])
            if event.task_id in step_of and event.state is TaskState.COMPLETED:
                completed_steps.add(step_of[event.task_id])


def _expected(event: ev.ResultReceived | ev.TaskEnded, step: Any, before: ev.Event) -> None:
    """V26: what nothing builds on: a result that is not what the step's plan expects, but by a person's decision, which
    may be one about the task whose result a fork keeps: that one is checked in its own run."""
    decided = isinstance(before, ev.InputGiven) and before.task_id == event.task_id
    is_own = isinstance(event, ev.ResultReceived) and event.attempt > 0
    is_result = is_own and event.state is TaskState.COMPLETED and not decided
    if is_result and step is not None and step.expected_output == EXPECTED:
        text = text_of(cast(agent_pb2.TaskResult, cast(ev.ResultReceived, event).payload).output)
        must("V26", text.startswith("{"), f"{event.task_id} completed with {text}")


def _inputs(
    event: ev.Dispatched,
    step: SubTask,
    predecessors: Sequence[str],
    states: dict[str, TaskState],
    stopping: set[str],
) -> None:
    """V19: a step starts after as many of its dependencies as it needs have completed, or with partial input all have
    ended."""
    missing = [name for name in predecessors if states.get(name) is not TaskState.COMPLETED]
    if step.quorum and len(predecessors) - len(missing) >= min(step.quorum, len(predecessors)):
        return
    if step.partial_input and all(name in states or name in stopping for name in predecessors):
        return
    must("V19", not missing, f"{event.task_id} began before {missing} had completed")


def _untouched(
    line: str,
    before: Sequence[ev.Event],
    revision: int,
    tasks: dict[str, str],
    steps: dict[str, Any],
    began: set[str],
    states: dict[str, TaskState],
) -> None:
    """An edit or an expansion ends no task that has begun, and leaves out no step that has, unless an earlier plan
    did."""
    for event in before:
        if isinstance(event, (ev.TaskEnded, ev.TaskStopping)) and event.failure is not None:
            replaced = event.failure.message.startswith(f"revision {revision} of the plan")
            must(line, not replaced or event.task_id not in began, f"{event.task_id} ended, which had begun")
    running = {id_ for id_, task_id in tasks.items() if task_id in began and states.get(task_id) is None}
    stopping = {tasks[id_] for id_ in running} & {
        event.task_id for event in before if isinstance(event, ev.TaskStopping)
    }
    gone = [id_ for id_ in running if id_ not in steps and tasks[id_] not in stopping]
    must(line, not gone, f"{gone} had begun and were left out")


def output_of(task: TaskContext, dice: Dice, text: str) -> str:
    """Returns the answer of a step: the text, or what is expected of it, but for faults."""
    if task.expected_output and not dice.fault("step answered what was not expected", 0.4):
        return json.dumps({"ok": text})
    return text


def failing(task: TaskContext, dice: Dice) -> bool:
    """Returns whether the work of a step fails for good."""
    return bool(task.step_id) and dice.fault("step failed", 0.12)
