"""Places for dials: who gets the next one, and how long a dial that fails keeps its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest

from archon.errors import Unavailable
from archon_services.orchestrator.sessions.dials import DialQueue, Dials, Turn
from tests.fixtures.waiting import until

NEW = Turn(False, 0)


async def order_of(queue: DialQueue, turns: dict[str, Turn]) -> list[str]:
    """Lets dials wait for the only place, in this order; returns the order in which they get it."""
    place = await queue.take(NEW)
    order: list[str] = []

    async def dial(name: str) -> None:
        taken = await queue.take(turns[name])
        order.append(name)
        taken.give_back()

    tasks = []
    for name in turns:
        tasks.append(asyncio.create_task(dial(name)))
        await asyncio.sleep(0)
    place.give_back()
    await asyncio.gather(*tasks)
    return order


async def test_the_newest_first_dial_gets_the_next_place() -> None:
    assert await order_of(DialQueue(1, 0.0), {"a": NEW, "b": NEW, "c": NEW}) == ["c", "b", "a"]


async def test_fewer_failures_go_first_and_equal_ones_in_order() -> None:
    turns = {"a": Turn(False, 3), "b": Turn(False, 1), "c": Turn(False, 1), "d": NEW}
    assert await order_of(DialQueue(1, 0.0), turns) == ["d", "b", "c", "a"]


async def test_instances_that_have_answered_go_first() -> None:
    turns = {"a": NEW, "b": Turn(True, 9), "c": Turn(False, 1), "d": Turn(True, 1)}
    assert await order_of(DialQueue(1, 0.0), turns) == ["d", "b", "a", "c"]


async def test_failures_per_second_are_bounded() -> None:
    queue = DialQueue(2, 0.05)
    began = asyncio.get_running_loop().time()
    for _ in range(7):
        (await queue.take(NEW)).end()
    assert asyncio.get_running_loop().time() - began >= 0.15, "three rounds of two have to end before the seventh"


async def test_a_dial_that_is_answered_gives_its_place_back_at_once() -> None:
    queue = DialQueue(1, 60.0)
    async with asyncio.timeout(60):
        for _ in range(3):
            place = await queue.take(NEW)
            place.give_back()
            place.end()


async def test_a_cancelled_dial_neither_keeps_nor_gets_a_place() -> None:
    queue = DialQueue(1, 0.0)
    place = await queue.take(NEW)
    waiting = [asyncio.create_task(queue.take(NEW)) for _ in range(100)]
    await asyncio.sleep(0)
    for task in waiting[1:]:
        task.cancel()
    await asyncio.gather(*waiting[1:], return_exceptions=True)
    assert len(queue._waiting) <= 2, "cancelled dials are forgotten"
    place.give_back()
    taken = await waiting[0]
    last = asyncio.create_task(queue.take(NEW))
    await asyncio.sleep(0)
    taken.give_back()
    last.cancel()
    await asyncio.gather(last, return_exceptions=True)
    async with asyncio.timeout(60):
        await queue.take(NEW)


@asynccontextmanager
async def mute() -> AsyncIterator[str]:
    """The address of a socket that accepts connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def test_a_server_is_greeted_if_it_speaks_http2() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await Dials().greet(f"127.0.0.1:{port}", NEW, 5.0)
    await server.stop(0)
    with pytest.raises(Unavailable, match="refuses"):
        await Dials().greet(f"127.0.0.1:{port}", NEW, 5.0)


async def test_a_server_that_does_not_answer_is_unavailable() -> None:
    async with mute() as address:
        with pytest.raises(Unavailable, match="did not answer"):
            await Dials().greet(address, NEW, 0.05)


async def test_a_server_that_closes_the_connection_is_unavailable() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    with pytest.raises(Unavailable):
        await Dials().greet(f"{host}:{port}", NEW, 5.0)
    server.close()


@pytest.mark.parametrize("address", ["agent.example:7000", "localhost:1", "a1", ""])
async def test_a_name_is_not_greeted(address: str) -> None:
    await Dials().greet(address, NEW, 0.01)


async def test_a_proxy_of_the_environment_changes_no_dial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("grpc_proxy", "http://proxy:3128")
    with pytest.raises(Unavailable, match="refuses connections"):
        await Dials().greet("127.0.0.1:1", NEW, 5.0)


async def test_dials_to_many_dead_instances_are_bounded() -> None:
    dials = Dials()
    dials.first_greetings = DialQueue(4, 60.0)
    refused: list[int] = []

    async def dial(number: int) -> None:
        try:
            await dials.greet("127.0.0.1:1", NEW, 5.0)
        except Unavailable:
            refused.append(number)

    tasks = [asyncio.create_task(dial(number)) for number in range(50)]
    await until(lambda: len(refused) == 4)
    await asyncio.sleep(0)
    assert len(refused) == 4
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
