"""Bids of an agent for steps of a plan that several could execute."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from archon.agent.attempt import Handler
from archon.agent.task import TaskContext
from archon.agent.values import Answer, TaskRejected
from archon.errors import ArchonError
from archon.registry import Profile
from archon.threads import on_thread
from archon.types.bid import Bid
from archon.types.part import json_part

OnBid = Callable[[TaskContext], Awaitable[Bid | None] | Bid | None]
"""Makes a bid for the step in `TaskContext.bid_request`; None: the agent does not bid. A plain function runs on a
thread."""


def bid_handler(on_bid: OnBid | None, profile: Profile | None) -> Handler:
    """Returns the handler of tasks that ask for a bid. Without `on_bid`, the bid has the estimates of the profile; an
    agent that has neither does not bid: the task is rejected."""

    async def handle(task: TaskContext) -> Answer:
        bid: object = await _made(on_bid, task) if on_bid is not None else _expected(profile)
        if bid is None:
            raise TaskRejected(f"{task.role} does not bid for this step")
        if not isinstance(bid, Bid):
            raise ArchonError(f"the bid handler of {task.role} returned {type(bid).__name__}, not Bid or None")
        return Answer(parts=[json_part(bid.text)], publish=False)

    return handle


async def _made(on_bid: OnBid, task: TaskContext) -> object:
    if inspect.iscoroutinefunction(on_bid):
        return await on_bid(task)
    made, error = await on_thread(lambda: on_bid(task), f"bid-{task.task_id}")
    if error is not None:
        raise error
    return made


def _expected(profile: Profile | None) -> Bid | None:
    if profile is None:
        return None
    bid = Bid(profile.expected_cost_micro_usd, profile.expected_latency_ms / 1000, profile.expected_quality)
    return bid if bid != Bid() else None
