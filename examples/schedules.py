"""Schedules from Python: cron in a time zone, a delayed start, a trigger and a backfill."""

from __future__ import annotations

from archon.client import Client
from archon.types import ScheduleFire


async def nightly(client: Client) -> str:
    added = await client.schedules.create(
        "nightly",
        "Review the changes of the day.",
        cron="30 2 * * *",
        time_zone="Europe/Berlin",
        run={"roles": ["reviewer"], "timeout": 900.0},
        overlap="buffer_one",
        pause_on_failure=True,
    )
    return f"{added.timing}, {added.overlap}, {len(added.next_times)} times to come"


async def delayed(client: Client, at: float) -> str:
    added = await client.schedules.create("later", "Remind the team.", at=at, run={"roles": ["reviewer"]})
    return added.state


async def by_hand(client: Client) -> str:
    fire = await client.schedules.trigger("nightly")
    return fire.state


async def fires(client: Client) -> list[ScheduleFire]:
    return [fire async for fire in client.schedules.fires("nightly")]


async def moved(client: Client) -> str:
    schedule = await client.schedules.get("nightly")
    moved = await client.schedules.edit("nightly", cron="0 4 * * 1-5", time_zone="Europe/Berlin", etag=schedule.etag)
    return moved.timing
