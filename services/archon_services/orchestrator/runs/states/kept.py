"""The parts of its run that a fork keeps: answers, the plan, and the answers of people."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.people import Breakpoint, Decision
from archon_mesh.engine import RunState, Task
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import NO_ORIGIN, ClockOrigin, Submission, TaskState
from archon_services.orchestrator.convert.human_input import read_input_given, read_input_requested


@dataclass(frozen=True, slots=True)
class Kept:
    """As in inputs.Submit."""

    reused: tuple[inp.ReusedAnswer, ...] = ()
    plan: inp.ReusedPlan | None = None
    answered: tuple[inp.ReusedInput, ...] = ()
    delegated: tuple[inp.ReusedDelegation, ...] = ()
    breakpoints: tuple[Breakpoint, ...] = ()
    identity: str = ""

    def submit(self, submission: Submission, owner: str = "", origin: ClockOrigin = NO_ORIGIN) -> inp.Submit:
        """Returns the input that creates the run with these parts."""
        return inp.Submit(
            submission,
            owner,
            1,
            self.reused,
            self.plan,
            self.answered,
            origin,
            self.delegated,
            self.breakpoints,
            self.identity,
        )


NOTHING_KEPT: Final = Kept()


def answered_inputs(
    state: RunState, events: Sequence[run_pb2.RunEvent], starting_over: Collection[str] = ()
) -> tuple[inp.ReusedInput, ...]:
    """Returns people's answers to tasks that have not completed and are executed anew, in order; not to those
    `starting_over`, which something has changed for. A rejected question is asked again, and so is one that had a
    default answer, for lack of one."""
    answered = list(_answered(state, events))
    kept = []
    for task in state.roots():
        if task.task_id in starting_over:
            continue
        own = [each for each in answered if each[0].task_id == task.task_id]
        for number, (asked, given) in enumerate(own, 1):
            payload, checkpoint = _question(asked), b""
            if number == len(own):  # the next attempt goes on from here
                checkpoint = _checkpoint(task)
            payload.checkpoint = checkpoint
            answer = run_pb2.InputGiven()
            if isinstance(given.payload, run_pb2.InputGiven):
                answer.CopyFrom(given.payload)
            answer.input_id = asked.input_id.removeprefix(f"{task.task_id}/")
            kept.append(
                inp.ReusedInput(
                    task.role,
                    task.step_id,
                    answer.input_id,
                    given.identity,
                    given.request_id,
                    given.digest,
                    asked.kind,
                    given.decision,
                    bool(checkpoint),
                    payload,
                    answer,
                )
            )
    return tuple(kept)


def _answered(state: RunState, events: Sequence[run_pb2.RunEvent]) -> Iterator[tuple[ev.InputRequested, ev.InputGiven]]:
    open_questions: dict[str, ev.InputRequested] = {}
    last: dict[str, tuple[ev.InputRequested, ev.InputGiven]] = {}
    for event in events:
        if event.HasField("input_requested"):
            asked = read_input_requested(event)
            assert isinstance(asked, ev.InputRequested)
            open_questions[asked.input_id] = asked
            last.pop(asked.input_id, None)  # asked again: the earlier answer no longer counts
        elif event.HasField("input_given") and event.input_given.input_id in open_questions:
            given = read_input_given(event)
            assert isinstance(given, ev.InputGiven)
            last[given.input_id] = (open_questions.pop(given.input_id), given)
    for asked, given in last.values():
        task = state.tasks[asked.task_id]
        is_open = not task.parent and task.state is not TaskState.COMPLETED
        if is_open and given.identity and given.decision != Decision.REJECT:
            yield asked, given


def _question(asked: ev.InputRequested) -> agent_pb2.TaskResult:
    payload = agent_pb2.TaskResult()
    if isinstance(asked.payload, agent_pb2.TaskResult):
        payload.CopyFrom(asked.payload)
    payload.ClearField("usage")
    return payload


def _checkpoint(task: Task) -> bytes:
    match task.checkpoint:
        case run_pb2.Delegated() | agent_pb2.TaskResult():
            return task.checkpoint.checkpoint
        case run_pb2.CheckpointTaken():
            return task.checkpoint.data
    return b""
