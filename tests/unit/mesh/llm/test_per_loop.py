"""Each event loop has a client of its own."""

from __future__ import annotations

import asyncio

from archon_mesh.llm.per_loop import PerLoop


class Client:
    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


def test_each_loop_has_a_client_of_its_own() -> None:
    clients = PerLoop(Client)

    async def current() -> Client:
        assert clients.current is clients.current
        return clients.current

    loops = [asyncio.new_event_loop() for _ in range(2)]
    first, second = (loop.run_until_complete(current()) for loop in loops)
    assert first is not second
    loops[0].run_until_complete(clients.close())
    loops[0].run_until_complete(clients.close())
    assert (first.closed, second.closed) == (1, 0), "the client of another loop is in use"
    assert loops[0].run_until_complete(current()) is not first
    for loop in loops:
        loop.close()
