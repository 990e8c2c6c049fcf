"""Runs a supervisor as its own process: `python -m archon_services.local_mesh OPTIONS [--steered]`, until SIGTERM.

OPTIONS is MeshOptions as JSON. With --steered the supervisor reads commands from standard input, one per line: `pause
NAME` stops a process until `start NAME` starts it again. The end of the input stops the mesh, so that it never outlives
the process that steers it.
"""

from __future__ import annotations

import asyncio
import json
import sys

from archon.errors import ArchonError
from archon.process_input import clean_environment
from archon.server import signalled
from archon.telemetry import logs
from archon_services.local_mesh.child import GRACE
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.options import MeshOptions
from archon_services.local_mesh.plan import make_plan
from archon_services.local_mesh.supervisor import Supervisor


def main() -> int:
    """Returns the exit code: 0 after a clean stop, 1 if the mesh fails to start."""
    clean_environment()
    options = MeshOptions(**json.loads(sys.argv[1]))
    logs.setup("archon-supervisor", log_format="json")
    try:
        home = Home.find()
        with home.hold():
            return asyncio.run(_run(home, options, steered="--steered" in sys.argv[2:]))
    except ArchonError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


async def _run(home: Home, options: MeshOptions, *, steered: bool) -> int:
    stop = signalled()
    async with Supervisor(home, make_plan(home, options)) as supervisor:
        starting = asyncio.create_task(supervisor.start(), name="start")
        stopping = asyncio.create_task(stop.wait(), name="wait for a signal")
        tasks = [starting, stopping]
        if steered:
            tasks.append(asyncio.create_task(_execute_commands(supervisor, stop), name="commands"))
        try:
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await stopping
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    supervisor.check_folder()
    return 0


async def _execute_commands(supervisor: Supervisor, stop: asyncio.Event) -> None:
    """Executes the commands on standard input; sets `stop` at its end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command, _, name = line.decode().strip().partition(" ")
        child = supervisor.child(name)
        if child is not None:
            await (child.pause(GRACE) if command == "pause" else child.start())
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
