"""A run of each durable peer survives what its row in the comparison says. A peer that is not installed is skipped: `make
bench-peers` installs all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.bench.drive import request_load
from tests.bench.durable_peers import Engine, Restate, Temporal
from tests.bench.environments import Installation
from tests.bench.peers_compare import DBOS
from tests.bench.processes import Processes
from tests.fixtures.require import missing
from tests.fixtures.waiting import until

pytestmark = pytest.mark.search

ENDED_WITHIN = 90.0


class Steps:
    """The file to which each step of a peer writes its role; holds a step."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = Path(f"{path}.held")

    def hold(self, role: str) -> None:
        """Holds the next step of a role; forgets the steps until now."""
        self._held.write_text(role)
        self._path.write_text("")

    def release(self) -> None:
        self._held.unlink()

    async def until(self, role: str) -> list[str]:
        """Returns the roles of all steps when a step of `role` has begun."""
        await until(lambda: role in self._path.read_text().split(), ENDED_WITHIN)
        return self._path.read_text().split()


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The steps of all processes that the test starts."""
    monkeypatch.setenv("BENCH_STEPS", str(tmp_path / "steps"))
    return Steps(tmp_path / "steps")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Processes]:
    """Processes that end with the test."""
    with Processes(tmp_path, within=60.0) as processes:
        yield processes


def require(*installations: Installation) -> None:
    """Skips the test unless all are installed, or fails it if ARCHON_REQUIRE names peers."""
    for each in installations:
        if not each.is_complete:
            missing("peers", f"{', '.join(each.packages)} is not installed: `make bench-peers`")


def kill(started: Processes, key: str) -> None:
    """Kills a process and returns when it has ended."""
    pid = started.pids[key]
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(10)


@pytest.mark.parametrize("kind", [Restate, Temporal])
async def test_a_run_completes_after_its_worker_was_killed(
    kind: type[Restate] | type[Temporal], started: Processes, steps: Steps, tmp_path: Path
) -> None:
    require(*kind.installations)
    engine: Engine = kind(started, tmp_path)
    engine.server()
    worker = engine.worker()
    client = engine.client()
    steps.hold("second")
    running = asyncio.create_task(request_load(client, 1, 1))
    await steps.until("second")
    kill(started, worker)
    steps.release()
    engine.worker()
    await asyncio.wait_for(running, ENDED_WITHIN)
    assert await steps.until("third") == ["first", "second", "second", "third"]


@pytest.mark.parametrize("kind", [Restate, Temporal])
async def test_a_run_completes_after_server_and_worker_were_killed(
    kind: type[Restate] | type[Temporal], started: Processes, steps: Steps, tmp_path: Path
) -> None:
    require(*kind.installations)
    engine: Engine = kind(started, tmp_path)
    server = engine.server()
    worker = engine.worker()
    client = engine.client()
    steps.hold("second")
    running = asyncio.create_task(request_load(client, 1, 1))
    await steps.until("second")
    kill(started, server)
    kill(started, worker)
    steps.release()
    engine.server()
    engine.worker()
    assert await steps.until("third") == ["first", "second", "second", "third"]
    running.cancel()  # the client may have lost its connection


async def test_a_run_of_dbos_completes_after_its_process_was_killed(
    started: Processes, steps: Steps, tmp_path: Path
) -> None:
    require(DBOS)
    command = ("tests.bench.peers_dbos", str(tmp_path / "dbos"))
    (tmp_path / "dbos").mkdir()
    process = started.start(*command, python=DBOS.python())
    steps.hold("second")
    running = asyncio.create_task(request_load(process, 1, 1))
    await steps.until("second")
    kill(started, process)
    steps.release()
    started.start(*command, python=DBOS.python())
    with pytest.raises(RuntimeError, match="the process ended"):
        await running
    # The process makes a run of its own when it starts, so that the steps of two runs follow each other or mix.
    recovered = await steps.until("third")
    assert recovered.count("first") == 2
