"""The whole mesh as real processes for tests: etcd, services and agents, to be killed, frozen and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from archon.errors import DeadlineExceeded
from archon_services.local_mesh import Home, MeshOptions, MeshState, end_mesh, read_state, spawn, wait_ready
from archon_services.local_mesh.state import Condition, ProcessState

_LOOK = 0.02


class LocalMesh:
    """A mesh on free ports in a folder of its own, ready when `start` returns; usable as a context manager. Methods
    block; nothing here needs an event loop.

    Processes are named `etcd`, `registry`, `memory`, `orchestrator` and `ROLE-NUMBER`, as in `designer-1`.
    `environment` has variables for a role or a service, as in `{"designer": {"ARCHON_MAX_TASKS": "1"}}`; ARCHON_*
    variables of this process are not passed on. What dies is started again, as in production; `restarts=False` leaves
    it dead until `resume`. `home` is kept where it is given, so that a second mesh can go on with the same data.

    The supervisor is a process of its own that ends with this one, and all others with it, also by SIGKILL.
    """

    def __init__(
        self,
        *,
        replicas: Mapping[str, int] | None = None,
        only: Sequence[str] = (),
        environment: Mapping[str, Mapping[str, str]] | None = None,
        etcd: str = "",
        model: str = "offline",
        restarts: bool = True,
        home: Path | None = None,
    ) -> None:
        self._options = MeshOptions(
            replicas=replicas or {},
            only=tuple(only),
            etcd=etcd,
            model=model,
            free_ports=True,
            environment=environment or {},
            restarts=restarts,
        )
        self._given = home
        self._home = Home((home or Path(tempfile.mkdtemp(prefix="archon-mesh-"))).absolute())
        self._supervisor: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LocalMesh:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, timeout: float = 60.0) -> None:
        """Returns when runs can be submitted. Raises StartFailed with the end of the guilty process's log."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        self._supervisor = spawn(self._home, self._options, steered=True, environment=clean)
        try:
            wait_ready(self._home, self._supervisor, timeout)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends every process, in order, by its id. Idempotent."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            assert supervisor.stdin is not None
            supervisor.stdin.close()
            try:
                supervisor.wait(30.0)
            except subprocess.TimeoutExpired:
                supervisor.kill()
                supervisor.wait(10.0)
            end_mesh(self._home)
        if self._given is None:
            shutil.rmtree(self._home.root, ignore_errors=True)

    @property
    def home(self) -> Path:
        """ARCHON_HOME of this mesh."""
        return self._home.root

    @property
    def state(self) -> MeshState:
        """As it stands."""
        state = read_state(self._home)
        if state is None:
            raise DeadlineExceeded(f"no mesh is up in {self._home.root}")
        return state

    @property
    def orchestrator(self) -> str:
        """host:port."""
        return self.state.address("orchestrator")

    @property
    def registry(self) -> str:
        """host:port."""
        return self.state.registry

    @property
    def memory(self) -> str:
        """host:port."""
        return self.state.address("memory")

    @property
    def etcd(self) -> str:
        """host:port."""
        return self.state.etcd

    @property
    def pids(self) -> dict[str, int]:
        """Of all processes that live, by name; the supervisor's too."""
        state = self.state
        return {"supervisor": state.pid, **{one.name: one.pid for one in state.processes if one.pid}}

    def address(self, name: str) -> str:
        """host:port of one process. Raises KeyError."""
        return self.state.process(name).address

    def log(self, name: str) -> str:
        """What one process has logged so far."""
        return self._home.log_file(name).read_text(errors="replace")

    def kill(self, name: str) -> int:
        """SIGKILL; returns the id of the process that was."""
        return self._signal(name, signal.SIGKILL)

    def freeze(self, name: str) -> None:
        """SIGSTOP: its port stays open, nothing answers."""
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT: goes on after `freeze`."""
        self._signal(name, signal.SIGCONT)

    def pause(self, name: str) -> None:
        """SIGTERM, and it stays ended until `resume`."""
        self._order("pause", name)
        self.wait(name, "stopped")

    def resume(self, name: str) -> None:
        """Starts it after `pause`, or after its end with `restarts=False`; returns when it is healthy."""
        self._order("start", name)
        self.wait(name, "healthy")

    def restart(self, name: str) -> None:
        """Ends it by SIGTERM and starts it again; returns when it is healthy."""
        self.pause(name)
        self.resume(name)

    def wait(
        self, name: str, condition: Condition = "healthy", *, not_pid: int = 0, timeout: float = 30.0
    ) -> ProcessState:
        """Waits until a process is in this condition, and is another one than `not_pid`. Raises DeadlineExceeded."""
        end = time.monotonic() + timeout
        while True:
            state = self.state.process(name)
            if state.condition == condition and (not not_pid or state.pid != not_pid):
                return state
            if time.monotonic() > end:
                raise DeadlineExceeded(f"{name} is {state.condition} after {timeout:g} s, not {condition}")
            time.sleep(_LOOK)

    def _signal(self, name: str, number: signal.Signals) -> int:
        pid = self.state.process(name).pid
        os.kill(pid, number)
        return pid

    def _order(self, order: str, name: str) -> None:
        self.state.process(name)  # raises KeyError
        assert self._supervisor is not None
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.write(f"{order} {name}\n".encode())
        self._supervisor.stdin.flush()
