"""Plans whose planner gave a refused reply: the reply is in the journal, and the run replays bit for bit."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from archon.agent import AgentServer, TaskContext
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.history import RecordedStep, RunHistory, open_run_file
from archon.testing import FakeAgent
from archon.wire import text_of
from archon_services.replay import decide_again, run_again
from archon_services.testing import InProcessMesh
from tests.integration.services.replay.recorded import export


def step(name: str, *dependencies: str) -> dict[str, object]:
    return {"id": name, "role": "worker", "description": f"do {name}", "dependencies": [*dependencies]}


CYCLE = json.dumps({"goal": "x", "subtasks": [step("a", "b"), step("b", "a")]})
PLAN = json.dumps({"goal": "x", "subtasks": [step("a"), step("b", "a")]})


async def recorded(folder: Path, refused: str) -> RunHistory:
    """The exported history of a run whose planner replied `refused` first."""
    told: list[tuple[str, ...]] = []

    async def plan(task: TaskContext) -> str:
        assert task.plan_request is not None
        told.append(task.plan_request.faults)
        return PLAN if len(told) > 1 else refused

    async with InProcessMesh(folder) as mesh, AsyncExitStack() as stack:
        settings = mesh.agent_settings()
        await stack.enter_async_context(AgentServer("planner", handler=plan, planner=True, settings=settings))
        await stack.enter_async_context(FakeAgent("worker", ["one", "two"], settings=settings))
        handle = await mesh.client.submit("x", strategy="plan", planner="planner", roles=["worker"])
        assert (await handle.result(15)).state == "completed"
        assert told[0] == () and told[1]
        await export(mesh, handle.run_id, folder / "run.archon")
    return open_run_file(folder / "run.archon").history()


def as_earlier(history: RunHistory) -> RunHistory:
    """The history as a version without the replies has stored it."""

    def older(stored: RecordedStep) -> RecordedStep:
        message = pb.WatchRunResponse.FromString(stored.data)
        for event in message.events:
            if event.HasField("retry"):
                event.retry.ClearField("reply")
        return RecordedStep(stored.base, stored.last_seq, message.SerializeToString(), stored.inputs, stored.link)

    return replace(history, steps=tuple(map(older, history.steps)))


@pytest.mark.parametrize("refused", ["I cannot plan that.", CYCLE], ids=["no plan", "cycle"])
async def test_a_refused_reply_is_recorded_and_replays(tmp_path: Path, refused: str) -> None:
    history = await recorded(tmp_path, refused)
    for each, replies in ((history, [refused]), (as_earlier(history), [""])):
        recording = decide_again(each)
        assert recording.difference is None and not recording.undecided
        retries = [event.retry for event in recording.events if event.HasField("retry")]
        assert [text_of(retry.reply) for retry in retries] == replies
        assert "the planner's reply cannot be executed" in retries[0].failure.message
        again = await run_again(recording)
        assert again.same and not again.stops and not again.played.late, again
        assert [text_of(event.retry.reply) for event in again.events if event.HasField("retry")] == replies
