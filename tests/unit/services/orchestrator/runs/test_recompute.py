"""What runs again after a change is what a reference computes, for random runs and random changes."""

from __future__ import annotations

from random import Random

import pytest

from archon.api.common.v1 import common_pb2
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.runs.states.changes import Asked
from archon_services.orchestrator.runs.states.fork_plan import ForkPlan
from tests.unit.services.orchestrator.runs.journaled_run import (
    Behaviour,
    JournaledRun,
    agent_run,
    pipeline,
    planned_run,
)

SEEDS = [pytest.param(range(60), id="60"), pytest.param(range(60, 560), id="500", marks=pytest.mark.search)]
TEXT = [common_pb2.Part(text="what a person says")]


def random_pipeline(random: Random) -> JournaledRun:
    roles = [f"r{number}" for number in range(random.randint(2, 9))]
    edges = [(a, b) for i, a in enumerate(roles) for b in roles[i + 1 :] if random.random() < 0.4]
    wide = tuple(role for role in roles if random.random() < 0.2)
    first = pipeline("source", roles, edges, all_ancestors=wide)
    return JournaledRun(first, {role: behaviour(random, roles) for role in roles})


def random_plan(random: Random) -> JournaledRun:
    ids = [f"s{number}" for number in range(random.randint(2, 10))]
    steps: list[SubTask] = []
    arguments: dict[str, set[str]] = {}
    for number, id_ in enumerate(ids):
        depends = [other for other in ids[:number] if random.random() < 0.4]
        if number == len(ids) - 1:  # one step must answer
            used = {other for step in steps for other in step.dependencies}
            depends = [other for other in ids[:number] if other in depends or other not in used]
        named = [other for other in depends if random.random() < 0.2]
        arguments[id_] = set(named)
        args = {f"a{n}": f"about {{{other}}}" for n, other in enumerate(named)}
        role = random.choice(["one", "two"])
        steps.append(SubTask(id_, f"Do {id_}.", dependencies=tuple(depends), role=role, tool_args=args))
    first = planned_run("source", Plan("", "do it", "do it", tuple(steps)), ["one", "two"])
    run = JournaledRun(first, {id_: behaviour(random, ids) for id_ in ids})
    run.used = {id_: names for id_, names in arguments.items() if names}
    return run


def behaviour(random: Random, names: list[str]) -> Behaviour:
    return Behaviour(None if random.random() < 0.4 else {name for name in names if random.random() < 0.5})


def reference(run: JournaledRun, uses: dict[str, set[str]], asked: Asked, finished: set[str]) -> set[str]:
    """Those that have not finished, those that are named, and those that used one that is changed, again and again."""
    edited = {name for name, _ in asked.answers}
    changed = {*asked.rerun, *edited, *(name for name, _ in asked.inputs)}
    while more := {name for name, used in uses.items() if used & changed} - changed:
        changed |= more
    names = {run.name(task) for task in run.state.tasks.values() if run.name(task) != "plan"}
    return ((names - finished) | changed) - edited


def random_change(random: Random, names: list[str]) -> Asked:
    chosen = random.sample(names, k=min(len(names), random.randint(0, 3)))
    rerun = [name for name in chosen if random.random() < 0.5]
    edited = [(name, TEXT) for name in chosen if name not in rerun and random.random() < 0.6]
    others = [name for name in chosen if name not in rerun and name not in dict(edited)]
    return Asked(rerun, edited, [(name, "another input") for name in others])


def check_fork(run: JournaledRun, random: Random, run_id: str, uses: dict[str, set[str]]) -> JournaledRun:
    """Forks a run that has ended with a random change at a random event; the fork executes what the reference says."""
    seq = 0 if random.random() < 0.5 else random.randint(started(run), len(run.events))
    names = [run.name(task) for task in run.state.roots() if run.name(task) != "plan"]
    asked = random_change(random, names)
    events = run.events[: seq or None]
    finished = {
        run.name(run.state.tasks[event.task.task_id])
        for event in events
        if event.HasField("result") and int(event.result.state) == TaskState.COMPLETED
    }
    fork, plan = run.fork(asked, run_id, after_seq=seq)
    fork.play(lambda tasks: random.choice(tasks))
    seen = {name: used for name, used in uses.items() if name in finished}
    expected = reference(run, seen, asked, finished)
    assert sorted(fork.executed) == sorted(expected), (run_id, seq, asked, uses)
    assert fork.state.state is TaskState.COMPLETED
    assert planned_to_run(plan) == expected
    for name, _ in asked.answers:
        (event,) = (each for each in fork.events if each.HasField("result") and fork_name(fork, each) == name)
        assert event.result.metadata["dev.archon/edited-by"] == "ann"
        assert event.result.output == TEXT
    return fork


def started(run: JournaledRun) -> int:
    """The event by which the run has all its tasks."""
    return max(event.seq for event in run.events if event.HasField("task_state") and event.task_state.state == 1)


def fork_name(run: JournaledRun, event: object) -> str:
    return run.name(run.state.tasks[event.task.task_id])  # type: ignore[attr-defined]


def planned_to_run(plan: ForkPlan) -> set[str]:
    """The tasks that a dry run says are executed."""
    return {task.step_id or task.role for task in plan.state.tasks.values() if not task.state.final}


@pytest.mark.parametrize("kind", [random_pipeline, random_plan])
@pytest.mark.parametrize("seeds", SEEDS)
def test_the_tasks_that_run_again_are_those_of_a_reference(seeds: range, kind: object) -> None:
    for seed in seeds:
        random = Random(seed)
        run: JournaledRun = kind(random)  # type: ignore[operator]
        arguments = dict(run.used)
        run.play(lambda tasks, random=random: random.choice(tasks))  # type: ignore[misc]
        uses = {name: used | arguments.get(name, set()) for name, used in run.used.items()}
        fork = check_fork(run, random, "first", uses)
        # Of a fork of the fork, answers that were taken over still say what they rest on; an edited one rests on nothing.
        again = {name: fork.used[name] | arguments.get(name, set()) for name in fork.executed}
        edited = {task.step_id or task.role for task in fork.state.tasks.values() if is_edited(task)}
        check_fork(fork, random, "second", {**uses, **again, **{name: set() for name in edited}})


def is_edited(task: object) -> bool:
    return "dev.archon/edited-by" in task.payload.metadata  # type: ignore[attr-defined]


def random_delegations(random: Random) -> JournaledRun:
    """A tree of delegations below `lead`; a role receives the answers of the roles upstream that have answered before."""
    roles = [f"h{number}" for number in range(random.randint(1, 9))]
    parents = {role: random.choice(["lead", *roles[:number]]) for number, role in enumerate(roles)}
    edges = [(a, b) for i, a in enumerate(roles) for b in roles[i + 1 :] if random.random() < 0.3]
    known = {role: behaviour(random, roles) for role in ("lead", *roles)}
    for role, agent in known.items():
        agent.delegates = tuple(child for child in roles if parents[child] == role)
        agent.quotes = random.random() < 0.4
    return JournaledRun(agent_run("source", "lead", edges, ("lead", *roles)), known)


def delegating_reference(run: JournaledRun, fork: JournaledRun, asked: Asked, finished: set[str]) -> set[str]:
    """As `reference`; and a task whose request quotes an answer that is given anew, or other ones than before, is another
    task, with all below it."""
    children = {role: set(agent.delegates) for role, agent in run.behaviours.items()}
    begun = set().union(*(run.delegated.values()), {"lead"})
    uses = {role: run.used.get(role, set()) | children[role] for role in finished}
    executed = reference(run, uses, asked, finished) & begun

    def below(role: str) -> set[str]:
        return children[role].union(*(below(child) for child in children[role]))

    for role in sorted(executed):
        quoted = fork.quoted.get(role, set())
        if run.behaviours[role].quotes and (quoted != run.quoted.get(role, set()) or quoted & executed):
            executed |= below(role)
    return executed


@pytest.mark.parametrize("seeds", SEEDS)
def test_delegations_that_are_requested_again_are_answered(seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        run = random_delegations(random).play(lambda tasks, random=random: random.choice(tasks))  # type: ignore[misc]
        seq = 0 if random.random() < 0.4 else random.randint(2, len(run.events))
        events = run.events[: seq or None]
        known = {event.delegated.role for event in events if event.HasField("delegated")} | {"lead"}
        results = [event for event in events if event.HasField("result")]
        finished = {event.result.role for event in results}
        rerun = random.sample(sorted(known), k=min(len(known), random.randint(0, 2)))
        fork, _ = run.fork(Asked(rerun), "first", after_seq=seq)
        fork.play(lambda tasks, random=random: random.choice(tasks))  # type: ignore[misc]
        expected = delegating_reference(run, fork, Asked(rerun), finished)
        assert sorted(fork.executed) == sorted(expected), (seed, seq, rerun)
        assert fork.state.state is TaskState.COMPLETED
        check_fork_of_fork(run, fork, random)


def check_fork_of_fork(run: JournaledRun, fork: JournaledRun, random: Random) -> None:
    """Forks the fork of a run with delegations: the answers that were taken over still say what they rest on."""
    here = {fork.name(task) for task in fork.state.tasks.values()}
    children = {role: set(agent.delegates) for role, agent in run.behaviours.items()}
    used = {**run.used, **fork.used}

    def rests_on(role: str, seen: frozenset[str] = frozenset()) -> set[str]:
        """The roles with a task in the fork that an answer rests on, through those that have none."""
        direct = used.get(role, set()) | children[role]
        gone = [other for other in direct - here if other not in seen]
        return (direct & here).union(*(rests_on(other, seen | {role}) for other in gone))

    rerun = random.sample(sorted(here), k=1)
    again, _ = fork.fork(Asked(rerun), "second")
    again.play()
    executed = reference(fork, {role: rests_on(role) for role in here}, Asked(rerun), here)
    for role in ["lead", *sorted(run.behaviours)]:
        quoted = again.quoted.get(role, set())
        before = fork.quoted.get(role, run.quoted.get(role, set()))
        if role not in executed or role not in again.executed:
            continue
        is_other = run.behaviours[role].quotes and (quoted != before or quoted & executed)
        executed |= children[role] if is_other else children[role] - here
    for _ in run.behaviours:  # what a task that is new delegates is new
        new = {role for role in executed if role not in here or role in again.executed}
        executed |= {child for role in new for child in children[role] if child not in here}
    assert set(again.executed) >= {*rerun}
    assert set(again.executed) - below_quoting(run, again) == executed - below_quoting(run, again), (rerun, executed)


def below_quoting(run: JournaledRun, fork: JournaledRun) -> set[str]:
    """The roles below one whose requests quote answers: whether they are other requests is checked above."""
    children = {role: set(agent.delegates) for role, agent in run.behaviours.items()}
    found = {child for role, agent in run.behaviours.items() if agent.quotes for child in children[role]}
    while more := {child for role in found for child in children[role]} - found:
        found |= more
    return found
