"""The states of runs that a list names: ended, waiting, and not kept any more."""

from __future__ import annotations

import asyncio

from archon_services.cli.run_states import AT_ONCE, REMOVED, run_states
from tests.fixtures.mesh import Mesh


async def test_states_are_those_of_now_and_a_removed_run_says_so(own_mesh: Mesh) -> None:
    gate = asyncio.Event()
    await own_mesh.agent("echo")
    await own_mesh.agent("slow", gate=gate)
    client = own_mesh.client
    ended = (await client.submit("x", roles=["echo"], wait=10)).run.run_id
    working = [(await client.submit("x", roles=["slow"])).run_id for _ in range(AT_ONCE + 2)]
    states = await run_states(client, [ended, "", "gone", ended, *working])
    gate.set()
    assert states == {ended: "completed", "gone": REMOVED, **dict.fromkeys(working, states[working[0]])}
    assert states[working[0]] in ("submitted", "working")
