"""A run of another mesh that is the task of an attempt: followed to its end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from archon.agent import TaskContext
from archon.errors import ResourceExhausted, RunExpired
from archon.federation.narration import Narrator
from archon.federation.other_mesh import OtherMesh
from archon.federation.question_relay import QuestionRelay
from archon.federation.reach import PASSING, pause, reach, unreachable
from archon.run_view import RunView
from archon.types.run import Run
from archon.types.run_event import RunEvent
from archon.types.usage import COUNTS, Usage

_WITH_USAGE: Final = ("result", "retry", "input_requested", "approval_requested", "discarded")


class FollowedRun:
    """Follows a run by its events, by sequence: events from the time of an outage come after it. Counts the usage of
    the run as the task's, shows its progress, and has its questions asked."""

    def __init__(self, task: TaskContext, mesh: OtherMesh, run_id: str, patience: float) -> None:
        self.run_id = run_id
        self._task = task
        self._mesh = mesh
        self._patience = patience
        self._view = RunView()
        self._narrator = Narrator(task, mesh.name, run_id)
        self._questions = QuestionRelay(task, mesh, run_id, patience)
        self._counted = Usage()
        self._replayed = 0

    async def ended(self) -> Run:
        """Waits until the run has ended, and returns it. Raises Unavailable if the other mesh does not answer for a
        while, UnknownRun if it has lost the run, and the errors of the task's questions."""
        self._narrator.submitted()
        following = asyncio.create_task(self._follow(), name=f"follow-{self.run_id}")
        relaying = asyncio.create_task(self._questions.relay(), name=f"questions-{self.run_id}")
        try:
            await asyncio.wait((following, relaying), return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                await relaying  # it ends only by an error
            return await following
        finally:
            for task in (following, relaying):
                task.cancel()
            await asyncio.wait((following, relaying))

    async def _follow(self) -> Run:
        await self._skip_known()
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while True:
            try:
                events = self._mesh.client().watch(self.run_id, self._view.last_seq, durable_only=True, patience=0.0)
                async with aclosing(events):
                    async for event in events:
                        heard = loop.time()
                        self._apply(event)
                break
            except RunExpired:  # it ended long ago; its answers are kept for longer than its events
                break
            except PASSING as error:
                if loop.time() - heard > self._patience:
                    raise unreachable(self._mesh, error) from error
            await pause()
        return await reach(self._mesh, lambda client: client.get(self.run_id), self._patience)

    async def _skip_known(self) -> None:
        """Notes the last event before this attempt: the progress until then was shown by earlier ones."""
        if self._task.attempt == 1:
            return
        try:
            self._replayed = (await reach(self._mesh, lambda client: client.get(self.run_id), self._patience)).last_seq
        except ResourceExhausted:
            self._replayed = 0  # too large for one response

    def _apply(self, event: RunEvent) -> None:
        self._view.apply(event)
        if event.seq > self._replayed:
            self._narrator.apply(event, self._view)
        if event.type in _WITH_USAGE:
            self._count()
        if event.seq >= self._replayed:
            self._questions.opened(question.input_id for question in self._view.questions)

    def _count(self) -> None:
        total = self._view.usage
        more = {name: max(0, getattr(total, name) - getattr(self._counted, name)) for name in COUNTS}
        self._counted = total
        if any(more.values()):
            self._task.add_usage(Usage(**more, estimated=total.estimated))
