"""A run of a mesh as a debugger controls it: its breakpoints, and the questions by which they hold it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.target.mesh import orchestrator_client

if TYPE_CHECKING:
    from archon.client import Client
    from archon.types import Run, RunBreakpoint, RunEvent, RunQuestion
    from archon_services.debugging import DebuggedRun

T = TypeVar("T")


class LiveRun:
    """A run, by its id and the address of an orchestrator. Each method makes its calls and returns; they raise CliError
    if the orchestrator cannot be reached, and the errors of the calls."""

    def __init__(self, orchestrator: str, run_id: str) -> None:
        self._orchestrator = orchestrator
        self._run_id = run_id

    def fetch(self) -> DebuggedRun:
        """Returns the run up to its present state."""
        from archon_services.debugging import fetch_debugged

        return self._call(lambda client: fetch_debugged(client, self._run_id))

    def breakpoints(self) -> list[RunBreakpoint]:
        """Returns the breakpoints of the run."""
        return self.run().breakpoints

    def set_breakpoints(self, texts: Sequence[str]) -> list[RunBreakpoint]:
        """Replaces the breakpoints of the run, and returns them."""

        async def replace(client: Client) -> Run:
            await client.set_breakpoints(self._run_id, texts)
            return await client.get(self._run_id)

        return self._call(replace).breakpoints

    def run(self) -> Run:
        """Returns the run as it is now."""
        return self._call(lambda client: client.get(self._run_id))

    def held(self) -> list[RunQuestion]:
        """Returns the open questions of breakpoints, oldest first."""
        return holds_of(self.run())

    def answer(self, input_ids: Sequence[str], decision: str, text: str = "") -> None:
        """Answers questions of breakpoints, all with one decision. A `text` that is JSON is sent as such."""

        async def respond(client: Client) -> None:
            for input_id in input_ids:
                await client.respond(self._run_id, input_id, text, decision=decision)

        self._call(respond)

    def wait(self, after_seq: int) -> bool:
        """Returns once the run is held at a breakpoint after this event, or asks something else (True), or has ended
        (False). Ctrl-C raises KeyboardInterrupt; the run goes on."""

        async def watch(client: Client) -> bool:
            events = client.watch(self._run_id, after_seq=after_seq, durable_only=True)
            async with aclosing(events):
                async for event in events:
                    if _asks(event):
                        return True
            return False

        return self._call(watch)

    def _call(self, call: Callable[[Client], Awaitable[T]]) -> T:
        return asyncio.run(self._connected(call))

    async def _connected(self, call: Callable[[Client], Awaitable[T]]) -> T:
        from archon.errors import FailedPrecondition, InvalidArgument, RunExpired

        async with orchestrator_client(self._orchestrator) as client:
            try:
                return await call(client)
            except InvalidArgument as error:
                raise CliError(error.message, code=USAGE) from None
            except RunExpired:
                raise
            except FailedPrecondition as error:
                raise CliError(error.message) from None


def holds_of(run: Run) -> list[RunQuestion]:
    """Returns the open questions of breakpoints of a run, oldest first."""
    return [question for question in run.questions if question.breakpoint]


def _asks(event: RunEvent) -> bool:
    return event.type in ("input_requested", "approval_requested")
