"""A run whose agents are functions of its tasks, driven without time or network: its events are those of a journal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from google.protobuf.timestamp_pb2 import Timestamp

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import text_of
from archon_mesh.engine import RunState, Task, apply, places
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import PLAN, WITHOUT_PLANNER, Edge, Submission, Target, TaskState
from archon_services.orchestrator.convert.event import write_event
from archon_services.orchestrator.convert.plan import target_from_proto
from archon_services.orchestrator.runs.states.changes import Asked
from archon_services.orchestrator.runs.states.fork_plan import ForkPlan, ForkPlanner

NOW = 1_000.0


@dataclass
class Behaviour:
    """An agent: the roles whose answers it names as used (None: it names none), the roles that it delegates to, one
    after the other, and whether its requests quote what it used."""

    uses: Collection[str] | None = None
    delegates: tuple[str, ...] = ()
    quotes: bool = False
    memo_key: bool = False


@dataclass
class JournaledRun:
    """`behaviours` are by the name of a task: its step, or else its role. `executed` are the names of the tasks that
    were executed, in order; `used` has for each the names whose answers it rests on."""

    first: inp.Submit
    behaviours: dict[str, Behaviour]
    state: RunState = field(default_factory=RunState)
    events: list[run_pb2.RunEvent] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    used: dict[str, set[str]] = field(default_factory=dict)
    delegated: dict[str, set[str]] = field(default_factory=dict)
    quoted: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.feed(self.first)

    @property
    def run_id(self) -> str:
        return self.first.submission.run_id

    def feed(self, given: inp.Input) -> None:
        epoch = self.state.epoch or 1
        for event in decide(self.state, given, NOW):
            proto = run_pb2.RunEvent()
            seq = self.state.last_seq + 1
            write_event(proto, event, run_id=self.run_id, seq=seq, time=Timestamp(seconds=int(NOW)), epoch=epoch)
            apply(self.state, event, NOW)
            self.events.append(proto)

    def name(self, task: Task) -> str:
        return task.step_id or task.role

    def play(self, choose: Callable[[list[Task]], Task] = lambda tasks: tasks[0]) -> JournaledRun:
        """Executes tasks until the run has ended; `choose` says which of those that can go on does."""
        while not self.state.ended:
            ready = [self.state.tasks[place.task_id] for place in places(self.state)]
            going = [task for task in self.state.live_tasks() if self._can_go_on(task)]
            self._step(choose([*ready, *going]))
        return self

    def _can_go_on(self, task: Task) -> bool:
        return all(self.state.tasks[each.child].answered for each in task.delegations.values())

    def _step(self, task: Task) -> None:
        behaviour = self.behaviours.get(self.name(task), Behaviour())
        if not task.live:
            self.executed.append(self.name(task))
            self.feed(inp.SlotFound(task.task_id, "i"))
            return
        todo = behaviour.delegates[len(task.delegations) :]
        if todo:
            self._delegate(task, todo[0], behaviour)
            return
        given = {self._author(ref.seq): ref for ref in task.context}
        names = set(given) if behaviour.uses is None else set(given) & set(behaviour.uses)
        if not names and behaviour.uses is not None:
            names = set(given)  # it cannot say that it used nothing
        self.used[self.name(task)] = set(names)
        answer = f"{self.name(task)} of {self.run_id}"
        result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=[common_pb2.Part(text=answer)])
        if behaviour.uses is not None:
            refs = (common_pb2.MemoryRef(run_id=self.run_id, role=given[n].role, seq=given[n].seq) for n in names)
            result.used.extend(refs)
        self.feed(inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, result))

    def _author(self, seq: int) -> str:
        return self.name(self.state.tasks[self.state.answer_tasks[seq]])

    def _delegate(self, task: Task, role: str, behaviour: Behaviour) -> None:
        text = f"help {self.name(task)}"
        if behaviour.quotes:
            authors = [self.state.tasks[self.state.answer_tasks[ref.seq]] for ref in task.context]
            self.quoted.setdefault(self.name(task), set()).update(map(self.name, authors))
            text += "".join(text_of(author.payload.output) for author in authors)  # type: ignore[attr-defined]
        digest = hashlib.sha256(f"{role} {text}".encode()).hexdigest()
        payload = run_pb2.Delegated(input=[common_pb2.Part(text=text)])
        number = len(task.delegations) + 1
        key = f"help {number}" if behaviour.memo_key else ""
        request = inp.DelegateIn(
            task.task_id, task.attempt, f"d{number}", task.applied + 1, role, True, digest, payload, memo_key=key
        )
        self.feed(request)
        self.delegated.setdefault(self.name(task), set()).add(role)

    def fork(self, asked: Asked, run_id: str, *, after_seq: int = 0) -> tuple[JournaledRun, ForkPlan]:
        """Returns a fork of this run at an event, not yet played, and its plan."""
        planner = ForkPlanner(self.events[: after_seq or len(self.events)], asked, editor="ann")
        plan = planner.plan(replace(self.first.submission, run_id=run_id, parent_run_id=self.run_id))
        return JournaledRun(plan.kept.submit(plan.submission, "owner"), self.behaviours), plan


def pipeline(run_id: str, roles: Collection[str], edges: Collection[tuple[str, str]], **more: object) -> inp.Submit:
    graph = tuple(Edge(upstream, downstream) for upstream, downstream in edges)
    submission = Submission(
        run_id,
        "default",
        "",
        "",
        "pipeline",
        tuple(roles),
        graph,
        60.0,
        run_pb2.Submitted(),
        **more,  # type: ignore[arg-type]
    )
    return inp.Submit(submission, "owner", 1)


def agent_run(run_id: str, root: str, edges: Collection[tuple[str, str]], targets: Collection[str]) -> inp.Submit:
    graph = tuple(Edge(upstream, downstream) for upstream, downstream in edges)
    known = tuple(Target(role, "", True) for role in targets)
    submission = Submission(
        run_id, "default", "", "", "agent", (root,), graph, 60.0, run_pb2.Submitted(), targets=known
    )
    return inp.Submit(submission, "owner", 1)


def planned_run(run_id: str, plan: Plan, roles: Collection[str]) -> inp.Submit:
    goal = run_pb2.Submitted()
    for role in roles:
        goal.plan_targets.append(plan_pb2.PlanTarget(role=role))
    submission = Submission(
        run_id,
        "default",
        "",
        "",
        PLAN,
        ("plan",),
        (),
        60.0,
        goal,
        targets=tuple(map(target_from_proto, goal.plan_targets)),
        plan_rules=WITHOUT_PLANNER,
    )
    answer = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)
    return inp.Submit(submission, "owner", 1, plan=inp.ReusedPlan(plan, (), answer))
