"""The supervisor of a mesh: starts its processes, reports readiness, writes the state file, stops in order."""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import groupby
from types import TracebackType
from typing import Any, Final

from archon.background import BackgroundLoop
from archon.errors import ArchonError, FailedPrecondition
from archon.history.keys import VARIABLE
from archon.principal import Principal
from archon_services.local_mesh.audit_keys import prepare_audit_key
from archon_services.local_mesh.certificates import CertificateIssuer
from archon_services.local_mesh.child import EXTERNAL, GRACE, Child
from archon_services.local_mesh.control import ControlServer
from archon_services.local_mesh.errors import StartFailed
from archon_services.local_mesh.forks import ForkServer, module_of
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.logs import rotate
from archon_services.local_mesh.options import GATEWAY, WORKFLOW
from archon_services.local_mesh.plan import Plan
from archon_services.local_mesh.readiness import check_etcd, registered_addresses, wait_for_orchestrator
from archon_services.local_mesh.role_instances import Report, RoleInstances
from archon_services.local_mesh.state import MeshState, Phase, write_state
from archon_services.local_mesh.tokens import RENEW_INTERVAL, TokenIssuer

START_TIMEOUT: Final = 60.0

_POLL: Final = 0.03
_FOLDER_POLL: Final = 0.5


class Supervisor:
    """Runs the processes of a plan. The constructor rotates their logs.

    Use it as a context manager inside `Home.hold`, from the main thread: the system kills the processes when the thread
    that started them ends. If the folder is removed, the supervisor sends its own process SIGTERM, as `archon down`
    does, which finds the process by that folder and cannot any more.
    """

    def __init__(self, home: Home, plan: Plan) -> None:
        self.home = home
        self.plan = plan
        self._phase: Phase = "starting"
        self._error = ""
        self._changed = asyncio.Event()
        self._children = {
            spec.name: Child(spec, home, self._changed.set, restarts=plan.restarts) for spec in plan.specs
        }
        self._writer = BackgroundLoop("state.json", self._write_changes)
        self._watch = BackgroundLoop("folder", self._watch_folder)
        self._folder_is_gone = False
        self._tokens = TokenIssuer(home)
        self._certificates = CertificateIssuer(home)
        self._renewing = BackgroundLoop("credentials", self._renew_credentials)
        self._instances = RoleInstances(home, plan, self._children, self._changed, self._issue_credentials)
        self._control = ControlServer(home, self._execute)
        self._stopped: asyncio.Task[None] | None = None
        for name in self._children:
            rotate(home.log_file(name))

    async def __aenter__(self) -> Supervisor:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def state(self) -> MeshState:
        """Returns the current state."""
        return MeshState(
            phase=self._phase,
            pid=os.getpid(),
            home=str(self.home.root),
            processes=tuple(child.state for child in self._children.values()),
            notes=self.plan.notes,
            error=self._error,
            etcd=self.plan.etcd,
            registry=self.plan.registry,
            durable=self.plan.durable,
            traces=self.plan.traces,
            otlp=self.plan.otlp,
            tls=self.plan.tls,
        )

    def child(self, name: str) -> Child | None:
        """Returns the process with this name; None if there is none."""
        return self._children.get(name)

    async def start(self, timeout: float = START_TIMEOUT) -> None:
        """Starts all processes and returns when runs can be submitted: all are healthy, all agents registered.

        Raises StartFailed if a process cannot start, or after `timeout` seconds.
        """
        try:
            if self.plan.has_keys:
                self._tokens.prepare()
                self._issue_credentials()
                self._renewing.start()
            if {"orchestrator", "registry"} & self._children.keys() and not os.environ.get(VARIABLE):
                prepare_audit_key(self.home)
            self._write_state()
            self._writer.start()
            self._watch.start()
            if self.plan.etcd and "etcd" not in self._children and self.plan.etcd != "memory":
                await check_etcd(self.plan.etcd)
            if any(spec.role == WORKFLOW for spec in self.plan.specs):
                self.home.workflow_role.touch()
            await self._start_children()
            async with asyncio.timeout(timeout):
                await self._wait_healthy()
                await self._wait_registered()
                if "orchestrator" in self._children:
                    await wait_for_orchestrator(self.plan, self._children["orchestrator"].state.address)
            await self._control.start()
        except TimeoutError:
            raise self._failed(f"the mesh is not ready after {timeout:g} s: {self._unready()}") from None
        except ArchonError as error:
            raise self._failed(str(error)) from error
        self._set_phase("ready")

    async def stop(self, grace: float = GRACE) -> None:
        """Stops all processes: agents, then orchestrator, memory, registry, etcd, Jaeger. Idempotent."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop(grace), name="stop")
        await asyncio.shield(self._stopped)

    def kill(self) -> None:
        """Sends SIGKILL to all processes, so that a running `stop` returns at once."""
        for child in self._children.values():
            child.kill()

    async def _stop(self, grace: float) -> None:
        if self._phase != "failed":
            self._set_phase("stopping")
        await self._control.close()  # before the list of processes is read
        children = sorted(self._children.values(), key=lambda child: child.spec.rank)
        stops: list[asyncio.Task[None]] = []
        for _, members in groupby(children, key=lambda child: child.spec.rank):
            group = list(members)
            if any(child.spec.kind in EXTERNAL for child in group):  # they receive the exports of the others
                await asyncio.gather(*stops)
            stops += [asyncio.create_task(child.stop(grace), name=f"stop {child.spec.name}") for child in group]
            await asyncio.gather(*(child.wait_served() for child in group))
        await asyncio.gather(*stops)
        await self._writer.close()
        await self._watch.close()
        await self._renewing.close()
        if self._phase == "failed":
            self._write_state()  # `wait_ready` reads the error
        elif self.home.is_held():
            self.home.state_file.unlink(missing_ok=True)

    def check_folder(self) -> None:
        """Raises FailedPrecondition if the mesh was stopped because its folder is gone."""
        if self._folder_is_gone:
            raise FailedPrecondition(
                f"the folder {self.home.root} was removed or replaced while its mesh was running: the mesh "
                "was stopped, the runs and the shared memory in that folder are gone"
            )

    def _issue_credentials(self) -> None:
        """Writes tokens and certificates of all processes, and of the user, as far as they need new ones."""
        if self.plan.has_keys:
            self._tokens.issue(self._callers())
        if self.plan.tls:
            self._certificates.issue(self._callers())

    async def _renew_credentials(self) -> None:
        while True:
            await asyncio.sleep(RENEW_INTERVAL)
            self._tokens.forget_key()  # a command may have replaced it
            self._issue_credentials()

    def _callers(self) -> list[tuple[str, Principal]]:
        specs = [child.spec for child in self._children.values()]
        return [(spec.name, spec.principal) for spec in specs if spec.principal is not None]

    async def _watch_folder(self) -> None:
        while self.home.is_held():  # noqa: ASYNC110 - no event tells that a file was removed
            await asyncio.sleep(_FOLDER_POLL)
        self._folder_is_gone = True
        os.kill(os.getpid(), signal.SIGTERM)

    async def _execute(self, command: str, value: Any, report: Report) -> None:
        """Executes a command; when its caller gets the answer, the state file has its changes."""
        try:
            await self._instances.execute(command, value, report)
        finally:
            self._write_state()

    async def _start_children(self) -> None:
        """Starts the processes: Archon's own as forks of one process, which imports their modules once."""
        children = self._children.values()
        modules = {
            module[0]: None
            for child in children
            if (module := module_of(child.spec.command)) and child.spec.kind != GATEWAY  # no other needs its packages
        }
        forked = [child for child in children if module_of(child.spec.command)]
        for child in children:
            if child not in forked:
                await child.start()
        if len(forked) < 2:
            for child in forked:
                await child.start()
            return
        async with ForkServer([f"{module}.app" for module in modules], forked[0].spec.environment) as forks:
            for child in forked:
                await child.start(forks)

    async def _wait_healthy(self) -> None:
        while True:
            states = [child.state for child in self._children.values()]
            for state in states:
                if state.condition == "failed":
                    child = self._children[state.name]
                    raise StartFailed(f"{state.name} {state.detail}; {child.log_excerpt()}")
            if all(state.condition == "healthy" for state in states):
                return
            self._changed.clear()
            await self._changed.wait()

    async def _wait_registered(self) -> None:
        agents = {name for name, child in self._children.items() if child.spec.kind == "agent"}
        while agents:
            registered = await registered_addresses(self.plan)
            if all(self._children[name].state.address in registered for name in agents):
                return
            await asyncio.sleep(_POLL)
            await self._wait_healthy()

    def _unready(self) -> str:
        unready = [child for child in self._children.values() if child.state.condition != "healthy"]
        if not unready:
            return f"not all agents are registered at {self.plan.registry}"
        names = ", ".join(f"{child.spec.name} ({child.state.condition})" for child in unready)
        return f"{names}; {unready[0].log_excerpt()}"

    def _failed(self, message: str) -> StartFailed:
        self._error = message
        self._set_phase("failed")
        return StartFailed(message)

    def _set_phase(self, phase: Phase) -> None:
        self._phase = phase
        self._write_state()
        self._changed.set()

    def _write_state(self) -> None:
        if self.home.is_held():  # another mesh may have the folder by now
            write_state(self.home, self.state())

    async def _write_changes(self) -> None:
        """Writes the state after changes, at most once per poll."""
        written = self.state()
        while True:
            await asyncio.sleep(_POLL)
            if (state := self.state()) != written:
                self._write_state()
                written = state
            else:
                self._changed.clear()  # others that wait for it look at the state before they wait
                await self._changed.wait()
