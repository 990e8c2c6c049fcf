"""A company's proxy in the environment: the mesh never uses it, whichever variable names it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.small_mesh import PIPELINE, small_mesh
from tests.e2e.terminal import Terminal

NAMES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")


class Proxy:
    """A proxy that closes each connection, and counts them."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def variables(self) -> dict[str, str]:
        """All variables that name a proxy, in both cases."""
        url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        return {spelled: url for name in NAMES for spelled in (name, name.upper())}

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        """Ends it."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


@contextmanager
def proxy() -> Iterator[Proxy]:
    """Runs a proxy during the block."""
    running = Proxy()
    try:
        yield running
    finally:
        running.close()


def test_mesh_of_up_runs_beside_a_proxy(tmp_path: Path) -> None:
    with proxy() as dead:
        terminal = Terminal(tmp_path / "home", **dead.variables)
        try:
            started = terminal.archon("up", "--detach", "--only", "registry,orchestrator,memory,requirements")
            assert started.code == 0, started.err
            done = terminal.fork("run", "--role", "requirements", "It must be blue.")
            assert done.code == 0, done.err
            agents = terminal.fork("agents", "--registry", terminal.state().registry)
            assert "requirements" in agents.out, agents.err
        finally:
            terminal.archon("down")
        assert not terminal.processes()
    assert dead.connections == 0


def test_mesh_over_tcp_runs_beside_a_proxy(tmp_path: Path) -> None:
    with proxy() as dead:
        with small_mesh(tmp_path, *PIPELINE, **dead.variables) as terminal:
            done = terminal.fork("run", "It must be blue.")
            assert done.code == 0, done.err
        assert dead.connections == 0


@pytest.mark.parametrize("name", NAMES)
def test_doctor_names_the_variables_of_a_proxy(tmp_path: Path, name: str) -> None:
    found = Terminal(tmp_path / "home", **{name.upper(): "http://user:secret@proxy:3128"}).fork("doctor")
    (line,) = [line for line in found.out.splitlines() if name.upper() in line]
    assert "the mesh uses no proxy" in line
    assert "secret" not in found.out
