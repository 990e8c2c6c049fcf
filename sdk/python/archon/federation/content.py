"""The content that crosses between a task and its run in another mesh: goal, answer, failure."""

from __future__ import annotations

from collections.abc import Iterator

from archon.agent import Answer, TaskContext
from archon.errors import ArchonError, OperationCancelled, UnknownFailure
from archon.failure_kinds import RetryAdvice
from archon.status import from_failure
from archon.types.child_run import ChildRun
from archon.types.part import Part
from archon.types.run import Run
from archon.types.run_answer import RunAnswer
from archon.types.task_state import TaskState


def goal_of(task: TaskContext) -> list[Part]:
    """Returns the goal of the run of a task: its input, the answers that it depends on, and the terms of its answer."""
    parts = list(task.parts)
    for item in task.context:
        texts = [part for part in item.parts if part.text is not None or part.data_json is not None]
        parts.append(Part(text=f"Answer of {item.role}:\n{item.text}"))
        parts += [part for part in item.parts if part not in texts]
    if task.expected_output:
        parts.append(Part(text=f"Expected output: {task.expected_output}"))
    if task.output_schema_json:
        parts.append(
            Part(text=f"The answer must be one JSON value that matches this schema: {task.output_schema_json}")
        )
    if task.refusal:
        parts.append(Part(text=f"An earlier answer was refused: {task.refusal}"))
    return parts


def answer_of(run: Run, mesh: str) -> Answer:
    """Returns the answer of a completed run: its parts; of several answers each below the name of its author."""
    metadata = ChildRun(mesh, run.run_id).metadata
    if len(run.answers) == 1:
        return Answer(parts=run.answers[0].parts, metadata=metadata)
    return Answer(parts=[part for answer in run.answers for part in _signed(answer)], metadata=metadata)


def _signed(answer: RunAnswer) -> Iterator[Part]:
    author = f"{answer.role} ({answer.step_id})" if answer.step_id else answer.role
    is_text = [part.text is not None or part.data_json is not None for part in answer.parts]
    yield Part(text=f"{author}:\n{answer.text}")
    yield from (part for part, text in zip(answer.parts, is_text, strict=True) if not text)


def failure_of(run: Run, mesh: str) -> ArchonError:
    """Returns the error of a run that did not complete: of the class and reason of its failure, which is the cause, and
    with the id of the run. It advises no retry, for each attempt at the task has the same run."""
    cause: ArchonError
    if run.failure is not None:
        cause = from_failure(run.proto.failure)
    elif run.state is TaskState.CANCELED:
        cause = OperationCancelled("it was cancelled there")
    else:
        cause = UnknownFailure("it ended without a reason")
    verb = "was cancelled" if run.state is TaskState.CANCELED else "failed"
    return type(cause)(
        f"run {run.run_id} of the mesh {mesh} {verb}: {cause}",
        reason=cause.reason,
        metadata={**cause.metadata, **ChildRun(mesh, run.run_id).metadata},
        field_violations=cause.field_violations,
        kind=cause.kind,
        failure_class=cause.failure_class,
        severity=cause.severity,
        retry=RetryAdvice.NEVER,
        causes=[cause],
    )
