"""Follows a run from its submission, or its fork, to its end. The first Ctrl-C cancels it, the second one detaches."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client
from archon.converse_stream import ConverseStream
from archon.errors import Aborted, Unavailable
from archon.submission import Goal
from archon.types import Budget, ForkPreview, Run, TaskState
from archon_services.cli.errors import FAILED, INTERRUPTED, OK, CliError, Interrupted
from archon_services.cli.interrupts import Signals, exit_code
from archon_services.cli.render.rerun import fork_note, rerun_note
from archon_services.cli.render.run_screen import Screen
from archon_services.cli.run_ids import SHORT
from archon_services.cli.target.memory_versions import memory_versions
from archon_services.cli.target.mesh import Target, orchestrator_client
from archon_services.cli.target.run import find_run_id
from archon_services.cli.waits import explained

_PATIENCE: Final = 15.0
"""Seconds to wait for an orchestrator that becomes unreachable in the middle of a run."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to submit; the fields are the arguments of `Client.submit` with these names."""

    goal: Goal
    roles: Sequence[str] = ()
    session_id: str = ""
    timeout: float | None = None
    strategy: str = ""
    budget: Budget | None = None
    request_id: str = ""
    """Empty for a new one."""
    planner: str = ""
    metadata: Mapping[str, str] | None = None
    check_alignment: bool = False
    plan: str = ""
    """The plan that the run begins with, as JSON; empty if a role plans, or there is none."""
    breakpoints: Sequence[str] = ()

    def options(self) -> dict[str, Any]:
        """The arguments of `Client.submit` besides the goal."""
        return {
            "roles": self.roles,
            "strategy": self.strategy,
            "planner": self.planner,
            "check_alignment": self.check_alignment,
            "plan": self.plan,
            "breakpoints": self.breakpoints,
            "metadata": self.metadata,
            "budget": self.budget,
            "session_id": self.session_id,
            "timeout": self.timeout,
            "request_id": self.request_id or uuid.uuid4().hex,
        }


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """An ended run, the exit code for it, and the versions of its answers in shared memory by role."""

    run: run_pb2.Run
    code: int
    versions: Mapping[str, int]


async def submit_and_follow(target: Target, request: RunRequest, screen: Screen, signals: Signals) -> RunOutcome:
    """Submits a run and returns when it has ended. Raises Interrupted if the user detached from it before."""
    async with orchestrator_client(target.orchestrator) as client, client.converse() as stream:
        run_id, streamed = await signals.guard(_submit(client, stream, request))
        work = _follow_stream(client, stream, run_id, screen) if streamed else follow(client, run_id, screen)
        run, cancelled = await _followed(client, run_id, work, screen, signals)
    return await _outcome(target, run, cancelled=cancelled)


async def submit_only(target: Target, request: RunRequest) -> str:
    """Submits a run, and returns its id once it is durable."""
    async with orchestrator_client(target.orchestrator) as client:
        return (await client.submit(request.goal, **request.options())).run_id


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A fork of a run; the fields are the arguments of `Client.fork` with these names."""

    after_seq: int = 0
    goal: str = ""
    rerun: Sequence[str] = ()
    answers: Mapping[str, str] | None = None
    inputs: Mapping[str, str] | None = None

    @property
    def has_changes(self) -> bool:
        """Whether it changes anything of the run."""
        return bool(self.goal or self.rerun or self.answers or self.inputs)

    def options(self) -> dict[str, Any]:
        """The arguments of `Client.fork` besides the run."""
        options = {"after_seq": self.after_seq, "rerun": self.rerun, "answers": self.answers, "inputs": self.inputs}
        return options | ({"goal": self.goal} if self.goal else {})


CONTINUED: Final = ForkRequest()
"""The fork that continues a run where it ended."""


async def fork_and_follow(
    target: Target,
    name: str,
    screen: Screen,
    signals: Signals,
    request: ForkRequest = CONTINUED,
    *,
    quiet: bool = False,
    at_any_time: bool = False,
) -> RunOutcome:
    """Forks a run and returns when the new one has ended. Unless `quiet`, notes which tasks are reused.

    `name` is the run's id, a prefix of it, or `last`. Raises CliError if the run has not ended, unless it may be forked
    `at_any_time`; Interrupted if the user detached from the new run before its end."""
    async with orchestrator_client(target.orchestrator) as client:
        source, fork = await signals.guard(_fork(client, name, request, at_any_time=at_any_time))
        if not quiet:
            is_plain = not (request.after_seq or request.has_changes)
            note = rerun_note(source, fork) if is_plain else fork_note(source, fork, request.after_seq)
            screen.note(note)
        run, cancelled = await _followed(client, fork.run_id, follow(client, fork.run_id, screen), screen, signals)
    return await _outcome(target, run, cancelled=cancelled)


async def preview_fork(
    target: Target, name: str, request: ForkRequest, *, at_any_time: bool = False
) -> tuple[str, ForkPreview]:
    """Returns the id of the run, and the tasks that a fork of it would begin with. Raises CliError as `fork_and_follow`
    does."""
    async with orchestrator_client(target.orchestrator) as client:
        source = await _source(client, name, at_any_time=at_any_time)
        return source.run_id, await client.plan_fork(source.run_id, **request.options())


async def _fork(
    client: Client, name: str, request: ForkRequest, *, at_any_time: bool
) -> tuple[run_pb2.Run, run_pb2.Run]:
    source = await _source(client, name, at_any_time=at_any_time)
    return source.proto, (await client.fork(source.run_id, **request.options())).run.proto


async def _source(client: Client, name: str, *, at_any_time: bool) -> Run:
    source = await client.get(await find_run_id(client, name))
    if not at_any_time and not source.state.final:
        short = source.run_id[:SHORT]
        raise CliError(
            f"run {source.run_id} has not ended: it is {source.state}",
            hint=f"`archon watch {short}` follows it, `archon cancel {short}` ends it.",
        )
    return source


async def _followed(
    client: Client, run_id: str, work: Coroutine[Any, Any, None], screen: Screen, signals: Signals
) -> tuple[run_pb2.Run, bool]:
    """Follows a run by `work` to its end. Returns it, and whether the user cancelled it. Raises Interrupted if the user
    detached from it."""
    following = asyncio.create_task(work, name="follow")
    try:
        async with explained(client, run_id, screen):
            cancelled = await _until_end(client, run_id, following, screen, signals)
    except Interrupted:
        screen.close()
        screen.note(f"Detached from run {run_id}, which may still be running: see `archon runs`.")
        raise
    finally:
        following.cancel()
        await asyncio.wait({following})
        screen.close()
    return (await client.get(run_id)).proto, cancelled


async def _outcome(target: Target, run: run_pb2.Run, *, cancelled: bool) -> RunOutcome:
    versions = await memory_versions(target.memory, run)
    if TaskState.from_proto(run.state) is TaskState.COMPLETED:
        return RunOutcome(run, OK, versions)
    return RunOutcome(run, INTERRUPTED if cancelled else FAILED, versions)


async def follow(client: Client, run_id: str, screen: Screen, *, after_seq: int = 0) -> None:
    """Passes the events of a run after `after_seq` to `screen` until the run has ended."""
    async with aclosing(client.watch(run_id, after_seq, patience=_PATIENCE)) as events:
        async for event in events:
            screen.event(event.proto)


async def _submit(client: Client, stream: ConverseStream, request: RunRequest) -> tuple[str, bool]:
    """Submits a run on the stream, which then shows all its events, the first text deltas included. Returns its id, and
    whether the stream shows it: if the stream breaks, the run is submitted by a call of its own."""
    options = request.options()  # with one request id, so that both submit one run
    try:
        return (await stream.submit(request.goal, **options)).run_id, True
    except Unavailable:
        return (await client.submit(request.goal, **options)).run_id, False


async def _follow_stream(client: Client, stream: ConverseStream, run_id: str, screen: Screen) -> None:
    """Passes the events of a run from the stream that submitted it; if that breaks, from a watch."""
    seen = 0
    try:
        async for event in stream:
            screen.event(event.proto)
            seen = event.seq or seen
            if event.type == "run_state":
                return
    except (Unavailable, Aborted):
        pass
    await follow(client, run_id, screen, after_seq=seen)


async def _until_end(
    client: Client, run_id: str, following: asyncio.Task[None], screen: Screen, signals: Signals
) -> bool:
    """Returns whether the user cancelled the run. Raises Interrupted if the user detached from it."""
    signum = await signals.race(following)
    if signum is None:
        following.result()
        return False
    if signum is not signal.SIGINT:
        raise Interrupted(exit_code(signum, terminated=FAILED))
    screen.note("Cancelling the run. Press Ctrl-C again to detach.")
    cancelling = asyncio.create_task(client.cancel(run_id, "Ctrl-C"), name="cancel")
    try:
        if await signals.race(following) is not None:
            raise Interrupted(INTERRUPTED)
        following.result()
    finally:
        cancelling.cancel()
        await asyncio.wait({cancelling})
        if not cancelling.cancelled() and cancelling.exception() is not None:
            screen.note(f"Cannot cancel the run: {cancelling.exception()}")
    return True
