"""The control socket of a mesh: its limits, and clients that leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, ResourceExhausted, Unavailable
from archon_services.local_mesh import Home, send_command
from archon_services.local_mesh.control import MAX_CONNECTIONS, MAX_REQUEST, ControlServer, Report
from tests.fixtures.waiting import until


class Commands:
    """Executes commands: `wait` lasts until `finish` is set."""

    def __init__(self) -> None:
        self.finish = asyncio.Event()
        self.begun = 0
        self.ended = 0

    async def execute(self, command: str, value: Any, report: Report) -> None:
        self.begun += 1
        report(f"{command} {value}")
        if command == "wait":
            await self.finish.wait()
        if command == "refuse":
            raise FailedPrecondition("not now")
        if command == "break":
            raise KeyError("secret")
        self.ended += 1


@pytest.fixture
async def commands() -> Commands:
    return Commands()


@pytest.fixture
async def home(tmp_path: Path, commands: Commands) -> AsyncIterator[Home]:
    home = Home(tmp_path)
    server = ControlServer(home, commands.execute)
    await server.start()
    yield home
    await server.close()
    assert not home.control_socket.exists()


async def test_steps_and_errors_reach_the_client(home: Home) -> None:
    steps: list[str] = []
    await send_command(home, {"go": 1}, steps.append)
    with pytest.raises(FailedPrecondition, match="not now"):
        await send_command(home, {"refuse": 2}, steps.append)
    with pytest.raises(ArchonError, match=r"^the command failed: KeyError$"):
        await send_command(home, {"break": 3}, steps.append)
    assert steps == ["go 1", "refuse 2", "break 3"]


async def test_a_command_above_its_limit_is_refused(home: Home, commands: Commands) -> None:
    for command in ({"go": "x" * MAX_REQUEST}, {"go": 1, "too": 2}):
        with pytest.raises((InvalidArgument, Unavailable)):
            await send_command(home, command, print)
    assert commands.begun == 0


async def test_connections_are_bounded(home: Home, commands: Commands) -> None:
    waiting = [asyncio.create_task(send_command(home, {"wait": number}, print)) for number in range(MAX_CONNECTIONS)]
    await until(lambda: commands.begun == MAX_CONNECTIONS)
    with pytest.raises(ResourceExhausted):
        await send_command(home, {"go": 1}, print)
    commands.finish.set()
    await asyncio.gather(*waiting)
    await send_command(home, {"go": 1}, print)


async def test_a_command_continues_without_its_client(home: Home, commands: Commands) -> None:
    leaving = asyncio.create_task(send_command(home, {"wait": 1}, print))
    await until(lambda: commands.begun == 1)
    leaving.cancel()
    await asyncio.wait([leaving])
    commands.finish.set()
    await until(lambda: commands.ended == 1)


async def test_a_command_ends_with_the_mesh(tmp_path: Path, commands: Commands) -> None:
    server = ControlServer(Home(tmp_path), commands.execute)
    await server.start()
    waiting = asyncio.create_task(send_command(Home(tmp_path), {"wait": 1}, print))
    await until(lambda: commands.begun == 1)
    await server.close()
    with pytest.raises(Unavailable, match="has stopped"):
        await waiting
    with pytest.raises(Unavailable, match="accepts no commands"):
        await send_command(Home(tmp_path), {"go": 1}, print)
