"""A mesh of real processes for tests, which can be killed, frozen and restarted."""

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
from archon.principal import Kind, Principal
from archon.security.credentials import Credentials, TokenFile, Tokens
from archon_services.local_mesh import Home, MeshOptions, MeshState, read_state, spawn, stop_mesh, wait_ready
from archon_services.local_mesh.state import Condition, ProcessState
from archon_services.local_mesh.tokens import TokenIssuer, user

_POLL = 0.02


class LocalMesh:
    """A mesh on free ports in its own folder, ready when `start` returns; usable as a context manager. With `jaeger`,
    the path of its program, all processes export their spans to it.

    Processes are named `etcd`, `registry`, `memory`, `orchestrator` and `ROLE-NUMBER`, such as `designer-1`.
    `environment` has variables per role or service, such as `{"designer": {"ARCHON_MAX_TASKS": "1"}}`; ARCHON_*
    variables of this process are not inherited. Processes that exit are restarted, as in production; with
    `restarts=False` they stay stopped until `resume`. `close` removes the folder unless `home` is given, in which case
    another mesh can continue with its data.

    The supervisor is a separate process that ends with this one, and all others with it, also after SIGKILL. Methods
    block and need no event loop.
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
        jaeger: str = "",
    ) -> None:
        self._options = MeshOptions(
            replicas=replicas or {},
            only=tuple(only),
            etcd=etcd,
            model=model,
            free_ports=True,
            environment=environment or {},
            restarts=restarts,
            jaeger=jaeger,
        )
        self._keep = home is not None
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
        """Returns when runs can be submitted. Raises StartFailed with the last log lines of the process that failed."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        self._supervisor = spawn(self._home, self._options, steered=True, environment=environment)
        try:
            wait_ready(self._home, self._supervisor, timeout)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stops all processes in order. Idempotent."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            assert supervisor.stdin is not None
            supervisor.stdin.close()
            try:
                supervisor.wait(30.0)
            except subprocess.TimeoutExpired:
                supervisor.kill()
                supervisor.wait(10.0)
            stop_mesh(self._home)
        if not self._keep:
            shutil.rmtree(self._home.root, ignore_errors=True)

    @property
    def home(self) -> Path:
        """The folder of this mesh."""
        return self._home.root

    @property
    def credentials(self) -> Credentials:
        """The credentials of clients of this mesh: `Client(mesh.orchestrator, credentials=mesh.credentials)`."""
        return Tokens(TokenFile(self._home.folder.token_file))

    def user_token(self) -> str:
        """Returns a token of the user of this process for the services, which is valid for a day."""
        return TokenIssuer(self._home).token(user())

    def token(self, role: str) -> str:
        """Returns the ARCHON_TOKEN of an agent of this role, which is valid for a day."""
        principal = Principal(Kind.AGENT, role, roles=frozenset({role}))
        issuer = TokenIssuer(self._home)
        return f"{issuer.token(principal)},{issuer.token(principal, 'agents')}"

    @property
    def state(self) -> MeshState:
        """The current state. Raises DeadlineExceeded if the mesh is not running."""
        state = read_state(self._home)
        if state is None:
            raise DeadlineExceeded(f"no mesh is running in {self._home.root}")
        return state

    @property
    def orchestrator(self) -> str:
        """host:port of the orchestrator."""
        return self.state.address("orchestrator")

    @property
    def registry(self) -> str:
        """host:port of the registry."""
        return self.state.registry

    @property
    def memory(self) -> str:
        """host:port of the memory service."""
        return self.state.address("memory")

    @property
    def etcd(self) -> str:
        """host:port of the etcd."""
        return self.state.etcd

    @property
    def pids(self) -> dict[str, int]:
        """The ids of all running processes by name, including `supervisor`."""
        state = self.state
        return {"supervisor": state.pid, **{process.name: process.pid for process in state.processes if process.pid}}

    def address(self, name: str) -> str:
        """Returns host:port of a process. Raises KeyError if there is none with this name."""
        return self.state.process(name).address

    def log(self, name: str) -> str:
        """Returns the log of a process."""
        return self._home.log_file(name).read_text(errors="replace")

    def kill(self, name: str) -> int:
        """Sends SIGKILL; returns the id of the killed process."""
        return self._signal(name, signal.SIGKILL)

    def freeze(self, name: str) -> None:
        """Sends SIGSTOP: the port stays open, but nothing answers."""
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Sends SIGCONT: continues after `freeze`."""
        self._signal(name, signal.SIGCONT)

    def pause(self, name: str) -> None:
        """Stops a process until `resume`: SIGTERM, then SIGKILL after some seconds."""
        self._command("pause", name)
        self.wait(name, "stopped")

    def resume(self, name: str) -> None:
        """Starts a process after `pause`, or after its exit with `restarts=False`; returns when it is healthy."""
        self._command("start", name)
        self.wait(name, "healthy")

    def restart(self, name: str) -> None:
        """Stops a process as `pause` does and starts it again; returns when it is healthy."""
        self.pause(name)
        self.resume(name)

    def wait(
        self, name: str, condition: Condition = "healthy", *, not_pid: int = 0, timeout: float = 30.0
    ) -> ProcessState:
        """Waits until a process is in this condition with an id other than `not_pid`. Raises DeadlineExceeded."""
        end = time.monotonic() + timeout
        while True:
            state = self.state.process(name)
            if state.condition == condition and (not not_pid or state.pid != not_pid):
                return state
            if time.monotonic() > end:
                raise DeadlineExceeded(f"{name} is {state.condition} after {timeout:g} s, not {condition}")
            time.sleep(_POLL)

    def _signal(self, name: str, signum: signal.Signals) -> int:
        pid = self.state.process(name).pid
        os.kill(pid, signum)
        return pid

    def _command(self, command: str, name: str) -> None:
        self.state.process(name)  # raises KeyError
        assert self._supervisor is not None
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.write(f"{command} {name}\n".encode())
        self._supervisor.stdin.flush()
