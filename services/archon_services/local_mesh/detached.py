"""A supervisor as its own process: spawned, awaited, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

from archon.errors import DeadlineExceeded
from archon.private_files import private_file
from archon_services.local_mesh.errors import StartFailed
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.logs import last_lines
from archon_services.local_mesh.options import MeshOptions
from archon_services.local_mesh.state import MeshState, read_state, start_ticks
from archon_services.local_mesh.supervisor import START_TIMEOUT

STOP_TIMEOUT: Final = 30.0
_POLL: Final = 0.03
_MARGIN: Final = 10.0
_REAP_TIMEOUT: Final = 3.0


def spawn(
    home: Home, options: MeshOptions, *, steered: bool = False, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a supervisor in its own session and returns at once. Raises AlreadyUp.

    A `steered` supervisor reads commands from its standard input and stops when that closes. `environment` replaces the
    environment of this process.
    """
    with home.hold():  # raises AlreadyUp, and creates the folders
        home.state_file.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "archon_services.local_mesh", json.dumps(asdict(options))]
    private_file(home.log_file("supervisor"))
    with home.log_file("supervisor").open("wb") as log:
        return subprocess.Popen(
            [*command, "--steered"] if steered else command,
            env={**(os.environ if environment is None else environment), "ARCHON_HOME": str(home.root)},
            stdin=subprocess.PIPE if steered else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_ready(
    home: Home,
    process: subprocess.Popen[bytes],
    timeout: float = START_TIMEOUT,
    *,
    on_state: Callable[[MeshState], None] | None = None,
) -> MeshState:
    """Waits until the mesh of a spawned supervisor is ready; `on_state` gets each state. Raises StartFailed."""
    end = time.monotonic() + timeout + _MARGIN
    while time.monotonic() < end:
        state = read_state(home)
        ended = process.poll() is not None
        if state is not None and state.pid == process.pid:
            if on_state is not None:
                on_state(state)
            if state.phase == "ready":
                return state
            if ended:
                raise StartFailed(state.error or "the mesh was stopped before it was ready")
        if ended:
            log = home.log_file("supervisor")
            raise StartFailed(f"the supervisor failed to start; last lines of {log}:\n{last_lines(log)}")
        time.sleep(_POLL)
    raise StartFailed(f"the mesh is not ready after {timeout:g} s")


def stop_mesh(home: Home, timeout: float = STOP_TIMEOUT) -> bool:
    """Stops the mesh of this folder and processes that a killed supervisor has left; returns whether anything was
    running.

    Raises DeadlineExceeded if the supervisor cannot be stopped.
    """
    pid = home.holder()
    state = read_state(home)
    ticks = start_ticks(pid) if pid > 0 else ""
    if pid > 0:
        _signal(pid, signal.SIGTERM)
        end = time.monotonic() + timeout
        while home.holder() == pid and time.monotonic() < end:
            time.sleep(_POLL)
        if home.holder() == pid:
            _signal(pid, signal.SIGKILL)
    left = _kill_leftovers(state) if state is not None else False
    end = time.monotonic() + _MARGIN
    while home.holder():
        if time.monotonic() > end:
            raise DeadlineExceeded(f"the mesh in {home.root} (process {pid}) does not stop")
        time.sleep(_POLL)
    # The lock is released shortly before the process is gone; until its parent reaps it, it stays as a zombie.
    end = time.monotonic() + _REAP_TIMEOUT
    while ticks and start_ticks(pid) == ticks and time.monotonic() < end:
        time.sleep(_POLL)
    for left_file in (home.state_file, home.control_socket):
        left_file.unlink(missing_ok=True)
    return pid != 0 or left


def _kill_leftovers(state: MeshState) -> bool:
    """Kills processes whose id still belongs to the process in `state`: ids are reused."""
    left = [
        process
        for process in state.processes
        if process.pid and process.birth and start_ticks(process.pid) == process.birth
    ]
    for process in left:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return bool(left)


def _signal(pid: int, signum: signal.Signals) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass
