"""A process of the local mesh, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from archon_services.local_mesh import Home
from archon_services.local_mesh.child import Child
from archon_services.local_mesh.plan import ProcessSpec
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
