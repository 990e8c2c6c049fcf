"""`python -m archon_services.local_mesh OPTIONS [--steered]`: a supervisor as a process of its own, until SIGTERM.

OPTIONS is MeshOptions as JSON. With --steered its standard input brings orders, one a line: `pause NAME` ends a process
and leaves it so, `start NAME` starts it again; and the end of the input ends the mesh, so that it never outlives
whoever steers it.
"""

from __future__ import annotations

import asyncio
import json
import sys

from archon.errors import ArchonError
from archon.server import signalled
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.options import MeshOptions
from archon_services.local_mesh.plan import make_plan
from archon_services.local_mesh.supervisor import GRACE, Supervisor


def main() -> int:
    """Returns the exit code: 0 after a clean end, 1 where the mesh could not be started."""
    options = MeshOptions(**json.loads(sys.argv[1]))
    home = Home.find()
    try:
        with home.hold():
            return asyncio.run(_serve(home, options, steered="--steered" in sys.argv[2:]))
    except ArchonError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


async def _serve(home: Home, options: MeshOptions, *, steered: bool) -> int:
    stop = signalled()
    async with Supervisor(home, make_plan(home, options)) as supervisor:
        steering = asyncio.create_task(_steer(supervisor, stop), name="steer") if steered else None
        starting = asyncio.create_task(supervisor.start(), name="start")
        stopping = asyncio.create_task(stop.wait(), name="wait for a signal")
        try:
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await stopping
        finally:
            for task in (starting, stopping, steering):
                if task is not None:
                    task.cancel()
            await asyncio.wait([task for task in (starting, stopping, steering) if task is not None])
    return 0


async def _steer(supervisor: Supervisor, stop: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        order, _, name = line.decode().strip().partition(" ")
        child = supervisor.child(name)
        if child is not None:
            await (child.pause(GRACE) if order == "pause" else child.start())
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
