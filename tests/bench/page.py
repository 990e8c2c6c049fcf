"""`python -m tests.bench.page` measures how the web page opens large runs: one of 2,000 tasks and one of 20,000 events, beside a run of
one task, which is the floor. Times are from the request for the page until the run is shown, and until all of its events are; the
memory is the private one of Chromium's process for the page. The browser is new for each round, with an empty cache."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest
from playwright.async_api import Browser, expect

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.client import Client
from archon.principal import Kind
from archon.security import credentials, keys
from archon_services.local_mesh import Home
from tests.web.chromium import opened_browser
from tests.web.page_mesh import WebMesh, web_mesh

SIZES: Final[Mapping[str, int]] = {"1 task": 0, "2,000 tasks": 2, "20,000 events": 5}
"""Runs by their number of foremen, each of whom delegates to as many hands as a task may."""

HANDS: Final = 999
AT_ONCE: Final = 48
SECONDS: Final = 600.0
AIM_SECONDS: Final = 1.0
AIM_MB: Final = 200.0
PATIENCE: Final = 120_000.0


@dataclass(frozen=True, slots=True)
class Opening:
    """Seconds until the run was shown and until all of its events were, and megabytes of the page then."""

    shown: float
    complete: float
    megabytes: float


async def head(task: TaskContext) -> str:
    """Delegates to as many foremen as its input says."""
    await asyncio.gather(
        *(task.delegate(str(number), role="foreman", timeout=SECONDS) for number in range(int(task.text)))
    )
    return "done"


async def foreman(task: TaskContext) -> str:
    """Delegates to hands, some at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with slots:
            await task.delegate(f"{task.text}/{number}", role="hand", timeout=SECONDS)

    await asyncio.gather(*(one(number) for number in range(HANDS)))
    return "done"


async def hand(task: TaskContext) -> str:
    """Answers with a sentence."""
    return f"{task.text} is done."


@asynccontextmanager
async def roles(web: WebMesh) -> AsyncIterator[None]:
    """The three roles during the block."""
    with pytest.MonkeyPatch.context() as patch:
        async with AsyncExitStack() as stack:
            for role, handler in (("head", head), ("foreman", foreman), ("hand", hand)):
                patch.setenv(credentials.TOKEN, web.mesh.token(role))
                patch.setenv(keys.VARIABLE, str(Home(web.mesh.home).folder.keys_file))
                settings = AgentSettings(registry=web.mesh.registry, max_tasks=64)
                await stack.enter_async_context(AgentServer(role, handler=handler, settings=settings))
            yield


async def made(client: Client, foremen: int) -> tuple[str, int, int]:
    """Returns the id of a run that has ended, with the numbers of its tasks and its durable events."""
    run = await client.submit(str(foremen), roles=["head"], strategy="agent", timeout=SECONDS)
    ended = await run.result(timeout=SECONDS)
    events = sum([1 async for event in run.events() if event.seq > 0])
    return ended.run_id, len(ended.tasks), events


async def opening(web: WebMesh, run_id: str, events: int) -> Opening:
    """Opens a run in a page of its own."""
    async with web.logged_in(Kind.VIEWER) as opened:
        page = opened.page
        await page.goto("about:blank")
        begun = time.perf_counter()
        await page.goto(f"{web.url}/runs/{run_id}?tab=events", wait_until="commit")
        await expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=PATIENCE)
        shown = time.perf_counter() - begun
        await expect(page.get_by_text(f"{events:,} of {events:,} events")).to_be_visible(timeout=PATIENCE)
        complete = time.perf_counter() - begun
        await page.get_by_role("tab", name="Tasks").click()
        await expect(page.get_by_role("table", name="Tasks").get_by_role("row").nth(1)).to_be_visible(timeout=PATIENCE)
        return Opening(shown, complete, await megabytes(web.browser))


async def megabytes(browser: Browser) -> float:
    """Returns the private memory of the largest process that draws pages, after a collection of garbage, in MB."""
    for context in browser.contexts:
        for page in context.pages:
            session = await context.new_cdp_session(page)
            await session.send("HeapProfiler.collectGarbage")
            await session.detach()
    session = await browser.new_browser_cdp_session()
    answer: Mapping[str, Any] = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    return max(_private(each["id"]) for each in answer["processInfo"] if each["type"] == "renderer")


def _private(pid: int) -> float:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return float(status["RssAnon"].split()[0]) / 1_000


async def measure(rounds: int) -> None:
    """Prints the medians of some rounds, as multiples of the floor as well."""
    async with opened_browser() as first, web_mesh(first) as web, roles(web), web.client() as client:
        runs = {name: await made(client, foremen) for name, foremen in SIZES.items()}
        found: dict[str, list[Opening]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, (run_id, _tasks, events) in runs.items():
                async with opened_browser() as browser:
                    found[name].append(await opening(WebMesh(web.mesh, browser), run_id, events))
        print("run             tasks  events   shown      all events        memory")
        floor = _medians(found["1 task"])
        for name, openings in found.items():
            _, tasks, events = runs[name]
            each = _medians(openings)
            print(
                f"{name:14} {tasks:6,} {events:7,} {each.shown:6.2f} s ({each.shown / floor.shown:3.1f})"
                f" {each.complete:6.2f} s ({each.complete / floor.complete:4.1f})"
                f" {each.megabytes:5.0f} MB ({each.megabytes / floor.megabytes:3.1f})"
            )
        worst = max(_medians(openings).shown for openings in found.values())
        largest = max(_medians(openings).megabytes for openings in found.values())
        print(f"aim: shown within {AIM_SECONDS:g} s ({worst:.2f}), at most {AIM_MB:g} MB ({largest:.0f})")


def _medians(openings: Sequence[Opening]) -> Opening:
    return Opening(*(median(getattr(each, name) for each in openings) for name in ("shown", "complete", "megabytes")))


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.page", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    asyncio.run(measure(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
