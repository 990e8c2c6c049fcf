"""Replays the file of a run in a test, with some of its roles live.

    async def test_the_designer_answers_as_in_march() -> None:
        await assert_replays(
            "march.archon",
            designer=lambda settings: AgentServer("designer", handler=design, settings=settings),
        )

The other roles answer from the file. It belongs to the meshes for tests, and not to the SDK, because it needs an
orchestrator: the task of each attempt follows from the engine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from archon.agent import AgentSettings
from archon.history import open_run_file, verify_run
from archon_services.replay import Difference, RunAgain, decide_again, replay_mesh

Serve = Callable[[AgentSettings], Any]
"""Returns an agent with these settings, which is served as long as its `async with` block is open: an AgentServer, a
FakeAgent."""


async def replay_file(path: Path | str, /, *, strict: bool = False, **live: Serve) -> RunAgain:
    """Runs the run of a file again, with the agents in `live` for their roles (a `_` in a name stands for `-`), and the
    file for all others. With `strict` an attempt from the file fails that is sent something else than in the recording.

    Raises InvalidArgument if the file was changed, OSError if it cannot be read, FailedPrecondition if the run cannot
    be run again, NotFound if it has no such role; AssertionError if today's engine decides it otherwise."""
    file = open_run_file(path)
    history = file.history()
    fault = verify_run(history.run_id, history.steps, last_seq=history.last_seq, ended=history.ended).fault
    assert not fault, f"{path} was changed: {fault}"
    recording = decide_again(history)
    assert recording.difference is None, f"{path}: today's engine decides otherwise: {_text('', recording.difference)}"
    roles = {name.replace("_", "-"): serve for name, serve in live.items()}
    async with (
        replay_mesh(recording, file.records(), live=roles, strict=strict) as mesh,
        AsyncExitStack() as stack,
    ):
        for serve in roles.values():
            agent = serve(AgentSettings(registry=mesh.registry, memory=mesh.memory))
            if inspect.isawaitable(agent):
                agent = await agent
            await stack.enter_async_context(agent)
        return await mesh.run()


async def assert_replays(path: Path | str, /, *, strict: bool = False, **live: Serve) -> RunAgain:
    """Raises AssertionError, with the first differences, unless the run of a file goes as recorded: the live agents
    give the recorded answers, and all others are sent the recorded tasks. Else as `replay_file`."""
    again = await replay_file(path, strict=strict, **live)
    if not again.same:
        found = [_text(task, difference) for task, difference in again.comparison.differences]
        found += [f"{other.task} was sent another {other.fields[0].path}" for other in again.played.contexts]
        found += [f"{unknown} is not in the recording" for unknown in again.played.unknown]
        raise AssertionError(f"{path} does not go as recorded:\n" + "\n".join(found[:10]))
    return again


def _text(task: str, difference: Difference) -> str:
    lines = [f"event {difference.seq} {task}: {difference.recorded}: {difference.reason}"]
    lines += [f"  {each.path}: recorded {each.recorded}, now {each.now}" for each in difference.fields]
    return "\n".join(lines)
