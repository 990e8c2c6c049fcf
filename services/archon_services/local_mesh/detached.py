"""A mesh in a process of its own: started, waited for, ended."""

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
from archon_services.local_mesh.errors import StartFailed
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.options import MeshOptions
from archon_services.local_mesh.state import MeshState, birth_of, read_state
from archon_services.local_mesh.supervisor import START_TIMEOUT

STOP_TIMEOUT: Final = 30.0
_LOOK: Final = 0.03
_MARGIN: Final = 10.0
_GONE: Final = 3.0


def spawn(
    home: Home, options: MeshOptions, *, steered: bool = False, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a supervisor as a process and session of its own; returns at once. `steered`: it takes orders on its
    standard input and ends when that closes. `environment` in place of this process's. Raises AlreadyUp."""
    with home.hold():  # fails early, and makes the folders
        home.state_file.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "archon_services.local_mesh", json.dumps(asdict(options))]
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
    seen: Callable[[MeshState], None] | None = None,
) -> MeshState:
    """Waits until the mesh of a supervisor is ready; `seen` gets the state as it goes. Raises StartFailed."""
    end = time.monotonic() + timeout + _MARGIN
    while time.monotonic() < end:
        state = read_state(home)
        ended = process.poll() is not None
        if state is not None and state.pid == process.pid:
            if seen is not None:
                seen(state)
            if state.phase == "ready":
                return state
            if ended:
                raise StartFailed(state.error or "the mesh was ended before it was ready")
        if ended:
            log = home.log_file("supervisor")
            raise StartFailed(f"the supervisor ended at once; the end of {log}:\n{_end_of(home)}")
        time.sleep(_LOOK)
    raise StartFailed(f"the mesh isn't ready after {timeout:g} s")


def end_mesh(home: Home, timeout: float = STOP_TIMEOUT) -> bool:
    """Ends the mesh of this folder, whoever started it, and what a supervisor that was killed left behind; returns
    whether there was anything to end. Raises DeadlineExceeded where it can't be ended."""
    pid = home.holder()
    state = read_state(home)
    birth = birth_of(pid) if pid > 0 else ""
    if pid > 0:
        _signal(pid, signal.SIGTERM)
        end = time.monotonic() + timeout
        while home.holder() == pid and time.monotonic() < end:
            time.sleep(_LOOK)
        if home.holder() == pid:
            _signal(pid, signal.SIGKILL)
    left = _end_leftovers(state) if state is not None else False
    end = time.monotonic() + _MARGIN
    while home.holder():
        if time.monotonic() > end:
            raise DeadlineExceeded(f"the mesh in {home.root} (process {pid}) doesn't end")
        time.sleep(_LOOK)
    # It lets go of the folder a moment before it is gone; one that its parent hasn't reaped yet stays a while.
    end = time.monotonic() + _GONE
    while birth and birth_of(pid) == birth and time.monotonic() < end:
        time.sleep(_LOOK)
    home.state_file.unlink(missing_ok=True)
    return pid != 0 or left


def _end_leftovers(state: MeshState) -> bool:
    """By id, and only where it is still the same process: ids are used again."""
    left = [one for one in state.processes if one.pid and one.birth and birth_of(one.pid) == one.birth]
    for one in left:
        try:
            os.killpg(one.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return bool(left)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _end_of(home: Home) -> str:
    return "\n".join(home.log_file("supervisor").read_text(errors="replace").splitlines()[-15:])
