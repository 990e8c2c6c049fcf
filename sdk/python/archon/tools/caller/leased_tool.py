"""A tool of another agent, leased for one task: renewed when its lease has expired, and moved to another instance when
its owner is gone, but never so that a call may act twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from hashlib import sha256
from types import TracebackType
from typing import Any, Final, Protocol

from archon.clock import monotonic
from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    LeaseExpired,
    NotFound,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
    UnknownFailure,
)
from archon.failure_kinds import TOOL_NETWORK, TOOL_TIMEOUT
from archon.tools.caller.find import FoundTool
from archon.tools.caller.peer import REVOKE_SECONDS, ToolPeer, encode_arguments, was_not_begun
from archon.tools.owner.audit import LOGGER, task_fields
from archon.tools.owner.leases import LEASE_SECONDS
from archon.tools.owner.tool_owner import CALL_SECONDS
from archon.tools.result import SharedToolResult
from archon.types.task_ref import TaskRef

MAX_TRIES: Final = 4
"""How often a call is sent, renewals and other instances included."""

RENEW_EARLY: Final = 5.0
"""Seconds before its end from which on a lease is replaced before a call."""

_log = logging.getLogger(LOGGER)

_GONE: Final = (Unavailable, DeadlineExceeded, Unimplemented, NotFound, ResourceExhausted, UnknownFailure)
"""Errors of LeaseTool after which another instance is asked."""


class Mesh(Protocol):
    """Finds shared tools and connects with their owners, as ToolClient does."""

    instance_id: str

    async def find(self, *, name: str, role: str, fresh: bool, timeout: float) -> list[FoundTool]:
        """Returns the instances that share a tool, best first."""
        ...

    def peer(self, owner: FoundTool) -> ToolPeer:
        """Returns the connection to the instance that shares a tool."""
        ...

    async def trim(self) -> None:
        """Closes connections that are not needed."""
        ...


class _Held:
    def __init__(self, found: FoundTool, lease_id: str, ends: float) -> None:
        self.found, self.lease_id, self.ends = found, lease_id, ends


class LeasedTool:
    """A tool to execute, from `ToolClient.lease`. Several calls may be in progress at a time."""

    def __init__(
        self,
        mesh: Mesh,
        name: str,
        *,
        role: str = "",
        task: TaskRef | None = None,
        duration: float = LEASE_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.name = name
        self.role = role
        self.task = task
        self._mesh = mesh
        self._duration = duration
        self._clock = clock
        self._held: _Held | None = None
        self._lock = asyncio.Lock()
        self._released = False

    @property
    def owner(self) -> FoundTool | None:
        """The instance that the tool is leased from now, with its terms; None before the first call."""
        return self._held.found if self._held is not None else None

    async def __aenter__(self) -> LeasedTool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    async def release(self) -> None:
        """Ends the lease, within two seconds; if the owner is not reachable, it expires. Idempotent."""
        self._released = True
        held, self._held = self._held, None
        if held is None:
            return
        try:
            async with asyncio.timeout(REVOKE_SECONDS):
                await self._mesh.peer(held.found).revoke(held.lease_id)
        except (ArchonError, TimeoutError) as error:
            _log.debug("the lease of tool %s was not released: %s", self.name, error)

    async def execute(
        self,
        arguments: Mapping[str, Any],
        *,
        timeout: float = CALL_SECONDS,
        idempotency_key: str = "",
        on_progress: Callable[[str], None] | None = None,
    ) -> SharedToolResult:
        """Executes a call within `timeout` seconds, with all that it takes to lease the tool. A failure of the tool
        itself is a result. With an `idempotency_key`, a repeated call of the same task with the same key has the same
        result, as long as its owner runs.

        Another instance gets the call only if the one before has certainly not begun it, or if the tool is idempotent.
        Raises NotFound if no instance shares the tool, InvalidArgument if the arguments do not match its schema,
        RequestIdReused, ResourceExhausted with a delay, LeaseExpired if the owner has revoked the lease, Unavailable,
        and DeadlineExceeded.
        """
        if self._released:
            raise FailedPrecondition(f"the lease of tool {self.name} was released")
        if not timeout > 0:
            raise InvalidArgument("the timeout of a call must be above 0 s")
        text = encode_arguments(arguments)
        began = self._clock()
        try:
            async with asyncio.timeout(timeout + 2 * REVOKE_SECONDS):  # the owner ends it earlier, if it is there
                result = await self._execute(text, began + timeout, idempotency_key, on_progress)
        except TimeoutError as error:
            late = error if isinstance(error, DeadlineExceeded) else self._late()
            self._note(began, "failed", late.reason)
            raise late from None
        except ArchonError as error:
            self._note(began, "failed", error.reason)
            raise
        except asyncio.CancelledError:
            self._note(began, "cancelled", "")
            raise
        self._note(began, str(result.status), result.metadata.get("reason", ""))
        return result

    async def _execute(
        self, text: str, deadline: float, key: str, on_progress: Callable[[str], None] | None
    ) -> SharedToolResult:
        avoided: set[str] = set()
        for number in range(1, MAX_TRIES + 1):
            held = await self._lease(deadline, avoided)
            left = deadline - self._clock()
            if left <= 0:
                raise self._late()
            try:
                return await self._mesh.peer(held.found).execute(held.lease_id, text, left, key, on_progress)
            except ArchonError as error:
                if isinstance(error, LeaseExpired) and was_not_begun(error):
                    self._drop(held)
                elif isinstance(error, (Unavailable, NotFound, UnknownFailure)):
                    self._drop(held)
                    avoided.add(held.found.instance_id)
                    if not was_not_begun(error) and not held.found.tool.idempotent:
                        raise
                else:
                    raise
                if number == MAX_TRIES:
                    raise
        raise AssertionError("unreachable")

    async def _lease(self, deadline: float, avoided: set[str]) -> _Held:
        """Returns the lease that is held, or a new one at the best instance that is not avoided."""
        async with self._lock:
            now = self._clock()
            held = self._held
            if held is not None and held.ends - now > min(RENEW_EARLY, self._duration / 2):
                return held
            self._held = None
            error: ArchonError | None = None
            for found in await self._owners(deadline, avoided, held):
                left = deadline - self._clock()
                if left <= 0:
                    raise self._late()
                try:
                    lease_id = await self._mesh.peer(found).lease(
                        self.name, self.task, self._mesh.instance_id, self._duration, left
                    )
                except _GONE as raised:
                    error = raised
                    avoided.add(found.instance_id)
                    continue
                finally:
                    await self._mesh.trim()
                self.role = self.role or found.role  # another role's tool of this name may do another thing
                self._held = _Held(found, lease_id, self._clock() + self._duration)
                return self._held
            raise error or self._missing(avoided)

    async def _owners(self, deadline: float, avoided: set[str], held: _Held | None) -> list[FoundTool]:
        """Returns the instances to ask for a lease: of the first role that has the tool, unless a role is named."""
        left = max(0.1, deadline - self._clock())
        found = await self._mesh.find(name=self.name, role=self.role, fresh=bool(avoided), timeout=left)
        if not found and not avoided:
            found = await self._mesh.find(name=self.name, role=self.role, fresh=True, timeout=left)
        owners = [each for each in found if each.instance_id not in avoided and each.instance.dialled_at]
        owners = [each for each in owners if each.role == owners[0].role]
        if self.task is not None and owners and not owners[0].tool.idempotent:
            # Each attempt asks the same instance first, which knows what an earlier one has done.
            owners.sort(key=lambda each: sha256(f"{self._task_id}:{each.instance_id}".encode()).digest())
        if held is not None:  # its result of an earlier call with the same key is there
            owners.sort(key=lambda each: each.instance_id != held.found.instance_id)
        return owners

    @property
    def _task_id(self) -> str:
        return self.task.task_id if self.task is not None else ""

    def _drop(self, held: _Held) -> None:
        if self._held is held:
            self._held = None

    def _missing(self, avoided: set[str]) -> ArchonError:
        whose = f" of role {self.role}" if self.role else ""
        if avoided:
            return Unavailable(f"no other instance{whose} shares tool {self.name!r}", kind=TOOL_NETWORK)
        return NotFound(f"no live instance{whose} shares a tool {self.name!r}", metadata={"tool": self.name})

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"no answer of tool {self.name} in time", kind=TOOL_TIMEOUT)

    def _note(self, began: float, outcome: str, reason: str) -> None:
        """Logs a call, without its contents."""
        owner = self._held.found if self._held is not None else None
        seconds = self._clock() - began
        fields = {
            "event": "call",
            "tool": self.name,
            "seconds": round(seconds, 6),
            "outcome": outcome,
            "reason": reason,
            "owner": owner.instance_id if owner is not None else "",
            **task_fields(self.task),
        }
        shown = f"{outcome} ({reason})" if reason else outcome
        at = f" at {owner.instance_id}" if owner is not None else ""
        _log.info("tool %s%s: %s in %.3f s", self.name, at, shown, seconds, extra=fields)
