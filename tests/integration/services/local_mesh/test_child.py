"""A process of the local mesh, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from archon_services.local_mesh import Home
from archon_services.local_mesh.child import Child
from archon_services.local_mesh.plan import ProcessSpec
from tests.fixtures.memory_group import memory_group
from tests.fixtures.waiting import until

# It serves no more after SIGTERM, but goes on exporting until the file `exported` exists.
PROGRAM = """
import os, pathlib, signal, sys, time
ready, exported = map(pathlib.Path, sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: ready.unlink())
ready.write_text("127.0.0.1:1")
while not exported.exists():
    time.sleep(0.01)
"""


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "exports"])
async def test_a_process_that_exports_its_last_serves_no_more(tmp_path: Path, ends: bool) -> None:
    home, exported = Home(tmp_path), tmp_path / "exported"
    with home.hold():
        ready = home.ready_file("clerk")
        command = (sys.executable, "-c", PROGRAM, str(ready), str(exported))
        child = Child(ProcessSpec("clerk", "service", command, dict(os.environ), "", 1), home, lambda: None)
        await child.start()
        await until(ready.exists, 20)
        if ends:
            exported.touch()
        stopping = asyncio.create_task(child.stop(60))
        async with asyncio.timeout(20):
            await child.wait_served()
        assert not ready.exists() or ends
        assert stopping.done() <= ends
        exported.touch()
        await stopping


EXHAUSTS = """
import os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
held = []
while True:
    held.append(bytes([1]) * 1_000_000)
"""


@pytest.mark.parametrize("by", ["the kernel", "a person"])
async def test_a_process_that_was_killed_for_its_memory_is_said_to_be(tmp_path: Path, by: str) -> None:
    home, group = Home(tmp_path), ExitStack()
    with home.hold(), group:
        command: tuple[str, ...] = (sys.executable, "-c", "import time; time.sleep(60)")
        if by == "the kernel":
            command = (sys.executable, "-c", EXHAUSTS, str(group.enter_context(memory_group(32_000_000))))
        details = list[str]()
        child = Child(
            ProcessSpec("clerk", "service", command, dict(os.environ), "", 1),
            home,
            lambda: details.append(child.state.detail),
        )
        await child.start()
        if by == "a person":
            child.kill()
        await until(lambda: any("killed" in detail for detail in details), 20)
        await child.stop(0)
        because = ", as memory ran out" if by == "the kernel" else ""
        assert f"killed by SIGKILL{because}" in details
