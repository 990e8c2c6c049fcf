"""Runs as the room follows them: to their end, or to a question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from typing import Final

from archon.client import Client
from archon.run_view import RunView
from archon.types.run import Run
from archon.types.run_event import RunEvent
from archon_services.gateway.mcp.questions import answerable

WAIT: Final = 600.0
"""Seconds for which a call waits for a run; then its result says that the run goes on."""

Tell = Callable[[str, int], Awaitable[None]]
"""Tells a client a line about a run, and the number of the event that it is about: 0 if that is transient."""


async def followed(
    client: Client,
    run: Run,
    identity: str,
    seconds: float,
    tell: Tell | None = None,
    asked: Collection[str] = (),
) -> Run:
    """Returns the run once it has ended or asks a question that `identity` may answer and that is not among those
    `asked`, or after some seconds as it is then. Raises the errors of Client.watch."""

    def stops() -> bool:
        return run.state.final or any(each.input_id not in asked for each in answerable(run, identity))

    if stops():
        return run
    view = RunView()
    try:
        async with (
            asyncio.timeout(seconds),
            aclosing(client.watch(run.run_id, durable_only=tell is None)) as events,
        ):
            async for event in events:
                view.apply(event)
                if tell is not None and (line := line_of(event)):
                    await tell(line, event.seq)
                if view.ended:
                    break
                if _asks(event) and view.last_seq >= run.last_seq:
                    run = await client.get(run.run_id)
                    if stops():
                        return run
    except TimeoutError:
        pass
    return await client.get(run.run_id)


def line_of(event: RunEvent) -> str:
    """Returns an event in a few words for people who wait for the run; empty if it says nothing to them."""
    message = event.proto
    kind = message.WhichOneof("event")
    if kind == "dispatched":
        return f"{message.dispatched.role} works"
    if kind == "tool_event":
        activity = message.tool_event
        if activity.result_json or activity.failed:
            return f"{activity.role}: {activity.tool_name} {'failed' if activity.failed else 'has returned'}"
        return f"{activity.role} calls {activity.tool_name}"
    if kind == "planned":
        return "a plan was made"
    if kind == "retry":
        return "an attempt has failed, and is repeated"
    if _asks(event):
        return "a person is asked"
    if kind == "input_given":
        return "a person has answered"
    if kind == "paused":
        return "the run is paused"
    return "the run goes on" if kind == "resumed" else ""


def _asks(event: RunEvent) -> bool:
    return event.proto.WhichOneof("event") in ("input_requested", "approval_requested", "question_timed_out")
