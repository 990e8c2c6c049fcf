"""Restarting and scaling the roles of a running mesh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from archon.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument, UnknownRole
from archon_services.local_mesh.child import GRACE, Child
from archon_services.local_mesh.errors import StartFailed
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.logs import rotate
from archon_services.local_mesh.options import MAX_REPLICAS, WORKFLOW
from archon_services.local_mesh.plan import Plan
from archon_services.local_mesh.readiness import registered_addresses

INSTANCE_TIMEOUT: Final = 60.0
"""Seconds until a new instance must be registered."""

_STOP_MARGIN: Final = 10.0
_POLL: Final = 0.1

Report = Callable[[str], None]
"""Gets a line about each step."""


class RoleInstances:
    """The instances of the roles among the processes of a mesh. One command is executed at a time. `issue_credentials`
    writes the tokens of all children."""

    def __init__(
        self,
        home: Home,
        plan: Plan,
        children: dict[str, Child],
        changed: asyncio.Event,
        issue_credentials: Callable[[], None],
    ) -> None:
        self._home = home
        self._plan = plan
        self._children = children
        self._changed = changed
        self._issue_credentials = issue_credentials
        self._busy = asyncio.Lock()

    async def execute(self, command: str, value: Any, report: Report) -> None:
        """Executes `restart` with a list of roles, or `scale` with numbers of instances by role.

        Raises InvalidArgument for any other command, FailedPrecondition while another command is executed, and the
        errors of `restart` and `scale`.
        """
        if self._busy.locked():
            raise FailedPrecondition("another command restarts or scales roles: try again when it has finished")
        async with self._busy:
            if command == "restart" and isinstance(value, list) and all(isinstance(role, str) for role in value):
                await self.restart(value, report)
            elif command == "scale" and isinstance(value, dict) and all(type(count) is int for count in value.values()):
                await self.scale(value, report)
            else:
                raise InvalidArgument(f"invalid command {command!r}")

    async def restart(self, roles: Sequence[str], report: Report) -> None:
        """Restarts the instances of these roles, each after the one before is registered again.

        Raises UnknownRole if a role has no instance in this mesh, StartFailed if an instance cannot start,
        DeadlineExceeded if one does not stop, or is not registered in time.
        """
        running = list(dict.fromkeys(child.spec.role for child in self._children.values() if child.spec.role))
        for role in roles:
            if role not in running:
                raise _unknown(role, f"this mesh runs {', '.join(running) or 'no roles'}")
        for role in dict.fromkeys(roles):
            for child in self._instances(role):
                report(f"restarting {child.spec.name}")
                await self._pause(child)
                await child.start()
                await self._wait_registered(child)

    async def scale(self, replicas: Mapping[str, int], report: Report) -> None:
        """Starts or stops instances until each role has this number of them; those with the highest numbers stop.

        Raises UnknownRole for a role that `archon up` does not know, InvalidArgument for an invalid number, StartFailed
        and DeadlineExceeded as `restart`. An instance that cannot start is removed.
        """
        for role, count in replicas.items():
            if role not in self._plan.roles:
                raise _unknown(role, f"expected one of {', '.join(self._plan.roles)}")
            if not 0 <= count <= MAX_REPLICAS:
                raise InvalidArgument(f"invalid number of instances {count} of {role}: expected 0 to {MAX_REPLICAS}")
        for role, count in replicas.items():
            children = self._instances(role)
            surplus = children[count:]
            for child in surplus:
                report(f"stopping {child.spec.name}")
            await asyncio.gather(*(self._remove(child) for child in surplus))
            for _ in range(count - len(children)):
                await self._add(role, report)
            if role == WORKFLOW and not count:
                self._home.workflow_role.unlink(missing_ok=True)

    def _instances(self, role: str) -> list[Child]:
        """Returns the instances of a role in the order of their numbers."""
        children = [child for child in self._children.values() if child.spec.role == role]
        return sorted(children, key=lambda child: _number(child.spec.name))

    async def _add(self, role: str, report: Report) -> None:
        """Starts an instance under the lowest free number."""
        taken = {_number(child.spec.name) for child in self._instances(role)}
        spec = self._plan.instance(role, next(number for number in range(1, len(taken) + 2) if number not in taken))
        report(f"starting {spec.name}")
        if role == WORKFLOW:
            self._home.workflow_role.touch()
        rotate(self._home.log_file(spec.name))
        child = Child(spec, self._home, self._changed.set, restarts=self._plan.restarts)
        self._children[spec.name] = child
        try:
            self._issue_credentials()
            await child.start()
            await self._wait_registered(child)
        except Exception:
            await self._remove(child)
            raise

    async def _remove(self, child: Child) -> None:
        await child.stop(GRACE)
        del self._children[child.spec.name]
        self._home.ready_file(child.spec.name).unlink(missing_ok=True)
        self._changed.set()

    async def _pause(self, child: Child) -> None:
        try:
            async with asyncio.timeout(GRACE + _STOP_MARGIN):
                await child.pause(GRACE)
        except TimeoutError:
            raise DeadlineExceeded(f"{child.spec.name} does not stop") from None

    async def _wait_registered(self, child: Child) -> None:
        try:
            async with asyncio.timeout(INSTANCE_TIMEOUT):
                while True:
                    await self._wait_healthy(child)
                    if child.state.address in await registered_addresses(self._plan):
                        return
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            problem = f"{child.spec.name} is {child.state.condition} and not registered after {INSTANCE_TIMEOUT:g} s"
            raise DeadlineExceeded(f"{problem}; {child.log_excerpt()}") from None

    async def _wait_healthy(self, child: Child) -> None:
        """Waits until the process is healthy. Raises StartFailed if it cannot start."""
        while child.state.condition != "healthy":
            if child.state.condition == "failed":
                raise StartFailed(f"{child.spec.name} {child.state.detail}; {child.log_excerpt()}")
            self._changed.clear()
            await self._changed.wait()


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _unknown(role: str, candidates: str) -> UnknownRole:
    return UnknownRole(f"unknown role {role!r}: {candidates}", metadata={"role": role})
