"""The notice that a channel sends about a question, and the port that channels implement."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from archon.api.orchestrator.v1 import run_pb2
from archon.wire import text_of
from archon_mesh.core.shorten import shortened
from archon_mesh.engine import RunState
from archon_services.orchestrator.convert.run_view import write_question

MAX_TEXT: Final = 4_000
"""Characters of a question that a notice has."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A question that waits for a person. `id` is the same whenever the notice is sent again, and another one for each
    approver that is asked in turn. `expires` is in wall seconds, 0 if the question does not time out; `command` answers
    it."""

    id: str
    run_id: str
    input_id: str
    role: str
    text: str
    approvers: tuple[str, ...]
    expires: float
    command: str


class Channel(Protocol):
    """A way to tell people of a question."""

    name: str

    async def notify(self, notice: Notice) -> None:
        """Delivers a notice within the deadline of its channel. Raises any exception if that failed; it may have been
        delivered all the same."""
        ...

    async def close(self) -> None:
        """Releases the resources of the channel. Idempotent."""
        ...


def notices_of(run: RunState) -> Iterator[Notice]:
    """Yields a notice for each open question of a run."""
    assert run.submission is not None
    run_id = run.submission.run_id
    for task in run.tasks.values():
        asking = task.asking
        if asking is None or not task.question or run.ending is not None:
            continue
        question = run_pb2.Question()
        write_question(run, task, question)
        short_id = asking.input_id.removeprefix(f"{run_id}.")
        yield Notice(
            f"{asking.input_id}#{asking.level}",
            run_id,
            asking.input_id,
            task.role,
            shortened(text_of(question.prompt), MAX_TEXT),
            asking.approvers,
            asking.deadline,
            f"archon respond {run_id} --question {shlex.quote(short_id)}",
        )
