"""Forks a run: which answers a new run takes over, and the events that record them in its own journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.types import Submission, TaskState

REUSED_ATTEMPT = 0
"""The attempt of a result that no attempt of its run produced: it was taken over from the forked run."""


def reusable(source: RunState, publishes: Callable[[int], bool]) -> tuple[inp.ReusedAnswer, ...]:
    """The answers of the completed tasks that were not delegated, in topological order. `publishes` tells whether the
    result event with a sequence number is published. None of a run with a plan: its fork is planned anew."""
    if source.plan is not None:
        return ()
    return tuple(
        inp.ReusedAnswer(
            task.role,
            task.payload,
            publishes(task.result_seq),
            tuple(published.item for published in task.items if published.seq > task.result_seq),
        )
        for task in source.roots()
        if task.state is TaskState.COMPLETED
    )


def reused_results(
    submission: Submission, task_ids: Mapping[str, str], reused: Iterable[inp.ReusedAnswer], seq: int
) -> list[ev.Event]:
    """The results of the reused answers, as the events after event `seq`; followed by the end of the run if no task is
    left. `task_ids` are those of the run's roles."""
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
