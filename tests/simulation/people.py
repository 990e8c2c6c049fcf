"""People in the simulation: rules, persons who approve, reject, modify, are silent, late, or the wrong ones; and lines
21 to 24 of docs/durability.md, which the journals have to hold."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from archon.agent import Question, QuestionTerms
from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.failure_kinds import ErrorSeverity
from archon_mesh.core.people import Condition, Decision, InterceptionRule, QuestionKind, TimeoutPolicy, Trigger
from archon_mesh.engine import RunState, Task
from archon_mesh.engine import events as ev
from archon_mesh.engine.decide.approval import modified_by_plan
from tests.simulation.check import Book, must
from tests.simulation.faults import Dice

if TYPE_CHECKING:
    from tests.simulation.world import World

APPROVERS = ("ann", "bob")
STRANGER = "eve"


def random_rules(random: Random) -> tuple[InterceptionRule, ...]:
    """Returns rules of all triggers, with short times."""
    conditions = {
        Trigger.PLAN: Condition(),
        Trigger.REPLAN: Condition(),
        Trigger.CHECKPOINT: Condition(step="*", role=random.choice("ab")),
        Trigger.ERROR: Condition(severity_at_least=ErrorSeverity.LOW),
    }
    return tuple(
        random_rule(random, trigger, condition) for trigger, condition in conditions.items() if random.random() < 0.5
    )


def random_rule(random: Random, trigger: Trigger, condition: Condition) -> InterceptionRule:
    """Returns a rule with random terms."""
    policy = random.choice([TimeoutPolicy.ABORT, TimeoutPolicy.DEFAULT, TimeoutPolicy.ESCALATE])
    approvers = APPROVERS if policy is TimeoutPolicy.ESCALATE or random.random() < 0.5 else ()
    default = random.choice(["approve", "approve", "reject"]) if policy is not TimeoutPolicy.ABORT else ""
    timeout = random.choice([1.0, 3.0, 30.0])
    return InterceptionRule(
        trigger, condition, random.randint(0, 2), trigger.name.lower(), approvers, timeout, policy, default
    )


def timed_question(dice: Dice) -> Question:
    """Returns the question of an agent whose time is short: the default answer counts then."""
    terms = QuestionTerms("", APPROVERS, dice.random.choice([1.0, 5.0]), "default", "by default")
    return Question("in time?", checkpoint=b"asked", terms=terms)


OWN_STEP = {"id": "own", "description": "do the goal", "dependencies": [], "role": "a"}
"""The plan of a person."""


def answers(dice: Dice, run: RunState, task: Task, run_id: str) -> list[tuple[str, pb.RespondRequest]]:
    """Returns what people send about the open question of a task, each request with the identity that sends it: at
    times nothing, two different answers, or first that of a person who may not answer."""
    asking = task.asking
    request = pb.RespondRequest(run_id=run_id, input_id=task.question)
    request.parts.add(text=f"answer to {task.question}")
    if asking is None:
        return [("", request)]
    if asking.terms.timeout and dice.fault("person silent", 0.5):
        return []
    sent = [(asking.approvers[-1] if asking.approvers else "", request)]
    if asking.kind is QuestionKind.APPROVAL:
        decision = dice.random.choice([Decision.APPROVE] * 4 + [Decision.REJECT, Decision.MODIFY])
        if decision is Decision.MODIFY and modified_by_plan(run, task):
            dice.fired["person gave a plan"] += 1
            request.parts[0].text = json.dumps({"goal": "goal", "subtasks": [OWN_STEP]})
        request.decision = question_pb2.Decision.ValueType(decision)
        dice.fired[f"person decided {decision.name.lower()}"] += 1
    if asking.approvers and dice.random.random() < 0.4:
        dice.fired["wrong person answered"] += 1
        sent.insert(0, (STRANGER, request))
    if asking.terms.timeout and not task.live and dice.random.random() < 0.3:
        dice.fired["person answered twice"] += 1
        other = pb.RespondRequest()
        other.CopyFrom(request)
        other.parts[0].text = "another answer"
        sent.append((sent[-1][0], other))
    return sent


def late_answer(random: Random, book: Book, run_id: str) -> pb.RespondRequest | None:
    """Returns an answer to a question that is closed, None if there is none. A later attempt may have asked it again
    by the time it arrives: it counts then."""
    closed = book.state.closed_questions
    if not closed:
        return None
    request = pb.RespondRequest(run_id=run_id, input_id=random.choice(closed).input_id)
    request.parts.add(text=f"answer to {request.input_id}, late")
    return request


def validate_people(world: World) -> None:
    """Checks lines 21 to 24 on the journals of all runs."""
    for book in world.check.books.values():
        validate_answers(book)
        world.dice.fired.update(
            f"time-out: {event.policy.name.lower()}" for event in book.facts if isinstance(event, ev.QuestionTimedOut)
        )


def validate_answers(book: Book) -> None:
    """Checks lines 21 to 24 on the journal of a run."""
    _asked_once(book.facts)
    _behind_gates(book.facts)
    _policies_once(book)
    _approvers(book.facts)


def _asked_once(events: Sequence[ev.Event]) -> None:
    """V21: a question that has its answer is never asked again, and a result that was approved waits no more."""
    asked: set[str] = set()
    waiting: dict[str, ev.ApprovalRequested] = {}
    approved: set[str] = set()
    for event in events:
        if isinstance(event, ev.ApprovalRequested):
            must("V21", event.input_id not in asked, f"{event.input_id} was asked twice")
            must("V21", event.task_id not in approved, f"{event.task_id} waits again after its approval")
            asked.add(event.input_id)
            waiting[event.task_id] = event
        elif isinstance(event, ev.InputGiven):
            request = waiting.pop(event.task_id, None)
            if request is not None and request.failure is None:
                approved.add(event.task_id)


def _behind_gates(events: Sequence[ev.Event]) -> None:
    """V22: no task starts behind an approval that is open or was rejected."""
    gates: dict[str, str] = {}
    predecessors: dict[str, tuple[str, ...]] = {}
    rejected = ""
    for event in events:
        if isinstance(event, ev.TaskCreated):
            predecessors[event.task_id] = event.predecessors
        elif isinstance(event, ev.ApprovalRequested):
            gates[event.task_id] = event.input_id
        elif isinstance(event, ev.InputGiven):
            if gates.pop(event.task_id, "") and event.decision == Decision.REJECT:
                rejected = event.input_id
        elif isinstance(event, ev.Dispatched):
            must("V22", not rejected, f"{event.task_id} was dispatched after {rejected} was rejected")
            closed = [
                gates[task_id] for task_id in (event.task_id, *predecessors.get(event.task_id, ())) if task_id in gates
            ]
            must("V22", not closed, f"{event.task_id} was dispatched behind {closed}")


def _policies_once(book: Book) -> None:
    """V23: the policy of a question is applied once for each approver, and not before the time has passed."""
    asked: dict[str, tuple[float, float]] = {}
    applied: dict[str, list[int]] = defaultdict(list)
    ended: set[str] = set()
    for event, time in zip(book.facts, book.times, strict=True):
        if isinstance(event, (ev.ApprovalRequested, ev.InputRequested)):
            asked[event.input_id] = time, event.terms.timeout
            applied.pop(event.input_id, None)
            ended.discard(event.input_id)
        elif isinstance(event, ev.QuestionTimedOut):
            since, timeout = asked[event.input_id]
            must("V23", time >= since + timeout - 1e-6, f"{event.input_id} timed out after {time - since:.3f} s")
            must("V23", event.input_id not in ended, f"the policy of {event.input_id} was applied twice")
            if event.policy is TimeoutPolicy.ESCALATE:
                must("V23", event.level not in applied[event.input_id], f"approver {event.level} was asked twice")
                applied[event.input_id].append(event.level)
                asked[event.input_id] = time, timeout
            else:
                ended.add(event.input_id)
        elif isinstance(event, ev.InputGiven) and event.identity in APPROVERS:
            must("V23", event.input_id not in ended, f"{event.input_id} was answered after its time")


def _approvers(events: Sequence[ev.Event]) -> None:
    """V24: an answer counts only from an approver of its question whose turn has come."""
    terms: dict[str, tuple[ev.ApprovalRequested | ev.InputRequested, int]] = {}
    for event in events:
        if isinstance(event, (ev.ApprovalRequested, ev.InputRequested)):
            terms[event.input_id] = event, 0
        elif isinstance(event, ev.QuestionTimedOut):
            terms[event.input_id] = terms[event.input_id][0], event.level
        elif isinstance(event, ev.InputGiven) and event.identity:
            asked, level = terms[event.input_id]
            allowed = asked.terms.asked_at(level)
            must("V24", not allowed or event.identity in allowed, f"{event.identity} answered {event.input_id}")
