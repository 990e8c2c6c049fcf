"""`archon rerun`: runs that are recovered by their users, on a mesh in one process with a real model server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from archon.client import Client
from tests.e2e.small_mesh import PIPELINE, small_mesh
from tests.e2e.terminal import PATIENCE, Result, Terminal
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk

GOAL = "Build a todo app."
GOOD = Answer(events=[chunk({"content": "R1. It is blue."}), chunk(finish="stop")])
BROKEN = Answer(status=400, body={"error": {"message": "no such model", "type": "invalid_request_error"}})


@dataclass
class Desk:
    """A terminal, and the server of the models. Commands run on a thread: the server answers in this one."""

    terminal: Terminal
    server: OpenAIServer

    async def archon(self, *arguments: str) -> Result:
        return await asyncio.to_thread(self.terminal.archon, *arguments)

    async def last_run(self) -> dict[str, Any]:
        run: dict[str, Any] = json.loads((await self.archon("show", "last", "--json")).out)
        return run

    async def failed_run(self) -> tuple[str, Result]:
        """Runs the goal; the second task fails. Returns the run's id and what the command printed."""
        self.server.script(GOOD, BROKEN)
        result = await self.archon("run", GOAL)
        assert result.code == 1, result.err
        return (await self.last_run())["run_id"], result


@pytest.fixture(scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with OpenAIServer() as server:
        model = {"ARCHON_MODEL": "openai/test", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "key"}
        with small_mesh(tmp_path_factory.mktemp("mesh"), *PIPELINE, **model) as terminal:
            yield Desk(terminal, server)


async def test_a_failed_run_is_continued_by_rerun(desk: Desk) -> None:
    failed, result = await desk.failed_run()
    hint = f"hint: `archon rerun {failed[:12]}` continues from the failed task."
    assert result.out.splitlines()[-1] == hint

    resumed = await desk.archon("resume", failed)
    assert resumed.code == 1
    assert resumed.error_lines[0].startswith(f"error: run {failed} has ended: failed: ")
    assert resumed.error_lines[1] == hint

    received = len(desk.server.received)
    again = await desk.archon("rerun", failed)
    assert again.code == 0, again.err
    run = await desk.last_run()
    assert run["parent_run_id"] == failed != run["run_id"]
    assert f"Run {run['run_id']} continues run {failed} and reuses requirements." in again.error_lines
    assert len(desk.server.received) == received + 2, "requirements called its model once, in the failed run"
    rows = {line.split()[0]: line.split()[1] for line in again.out.splitlines() if line.strip()}
    assert [rows[role] for role in ("requirements", "designer", "implementer")] == ["reused", "completed", "completed"]
    assert any("requirements" in line and line.endswith("reused") for line in again.error_lines)

    shown = (await desk.archon("show", run["run_id"], "--no-answer")).out
    assert f"  forked from  {failed}\n" in shown
    assert any("requirements" in line and "reused" in line for line in shown.splitlines())


async def test_a_rerun_of_a_completed_run_reuses_everything(desk: Desk) -> None:
    assert (await desk.archon("run", GOAL, "--quiet")).code == 0
    source = await desk.last_run()
    received = len(desk.server.received)
    again = await desk.archon("rerun", source["run_id"])
    assert again.code == 0, again.err
    assert "reuses everything" in again.err and "`archon run` executes a goal anew." in again.err
    assert len(desk.server.received) == received
    quiet = await desk.archon("rerun", source["run_id"], "--quiet")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out.strip() == source["answers"][0]["parts"][0]["text"].strip()


async def test_rerun_prints_json_and_fails_as_run_does(desk: Desk) -> None:
    failed, _ = await desk.failed_run()
    desk.server.script(BROKEN)
    result = await desk.archon("rerun", failed, "--json")
    assert result.code == 1
    events = [json.loads(line) for line in result.out.splitlines()]
    assert [int(event["seq"]) for event in events if int(event.get("seq", 0))] == list(range(1, len(events) + 1))
    assert (await desk.archon("rerun", "nothing")).code == 4
    quiet = await desk.archon("rerun", failed, "--quiet", "--json")
    assert (quiet.code, quiet.err.splitlines()[0]) == (2, "error: --json and --quiet are mutually exclusive")


async def test_a_run_in_progress_cannot_be_rerun(desk: Desk) -> None:
    desk.server.script(Answer(delay=300.0))
    async with Client(desk.terminal.state().address("orchestrator"), credentials=desk.terminal.credentials) as client:
        handle = await client.submit(GOAL)
        refused = await desk.archon("rerun", handle.run_id)
        assert (refused.code, refused.error_lines[0]) == (
            1,
            f"error: run {handle.run_id} has not ended: it is working",
        )
        await handle.cancel()
        run = await handle.result(timeout=PATIENCE)
    resumed = await desk.archon("resume", run.run_id)
    assert f"`archon rerun {run.run_id[:12]}` continues with the tasks that had not completed." in resumed.err
