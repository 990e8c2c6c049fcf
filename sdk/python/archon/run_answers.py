"""The final answers of a run, as a text or as a value."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from archon.errors import (
    FailedPrecondition,
    ResourceExhausted,
)
from archon.output import OutputType
from archon.types.run import Run
from archon.types.run_answer import RunAnswer

Out = TypeVar("Out")


def answer_text(run: Run) -> str:
    """The text of the final answers; if there are several, each below the name of its role. Raises ResourceExhausted
    (MESSAGE_TOO_LARGE) if they are missing because the run was too large for the response."""
    if run.truncated and not run.answers:
        raise ResourceExhausted(
            f"the answers of run {run.run_id} are too large for one response: watch it to get each by itself",
            reason="MESSAGE_TOO_LARGE",
            metadata={"run_id": run.run_id},
        )
    texts = [(_author(answer), answer.text) for answer in run.answers]
    if len(texts) == 1:
        return texts[0][1]
    return "\n\n".join(f"{role}:\n{text}" for role, text in texts)


@overload
def answer_value(run: Run, output: type[Out]) -> Out: ...


@overload
def answer_value(run: Run, output: object = None) -> Any: ...


def answer_value(run: Run, output: object = None) -> Any:
    """The final answer as the JSON value that it is, or as an object of the type `output`: a pydantic model, another
    type that pydantic knows, or a JSON Schema that the answer matches.

    Raises OutputMismatch if the answer is not JSON, or not of that type, FailedPrecondition if there is not exactly one
    answer, and the errors of `answer_text`.
    """
    text = answer_text(run)
    if len(run.answers) != 1:
        raise FailedPrecondition(f"run {run.run_id} has {len(run.answers)} answers, not one: read `run.answers`")
    expected = OutputType.of(output)
    return (OutputType({}) if expected is None else expected).parse(text)


def _author(answer: RunAnswer) -> str:
    return f"{answer.role} ({answer.step_id})" if answer.step_id else answer.role
