"""Faults by name, which begin and are healed: of a mesh, a model or a tool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Generic, Self, TypeVar

from archon.errors import FailedPrecondition, InvalidArgument


class NamedFault(StrEnum):
    """A fault by name. `effect` says how the fault works, and `seen` how a test notices it."""

    effect: str
    seen: str

    def __new__(cls, name: str, effect: str, seen: str) -> Self:
        """Creates a member whose value is its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.effect = effect
        member.seen = seen
        return member


F = TypeVar("F", bound=NamedFault)


def fault_of(kind: type[F], name: F | str) -> F:
    """Returns the fault of this name, in any case. Raises InvalidArgument that lists the names."""
    for each in kind:
        if each == str(name).lower():
            return each
    raise InvalidArgument(f"unknown fault {str(name)!r}; there are {', '.join(kind)}")


class InjectedFault:
    """One fault, from `start` to `heal`, or during an `async with` block. It is healed also if the block raises.

    It can be started again after it was healed.
    """

    def __init__(self, name: str, apply: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self.name = name
        self._apply = apply
        self._applied: AbstractAsyncContextManager[object] | None = None

    @property
    def active(self) -> bool:
        """Whether the fault has begun and is not healed."""
        return self._applied is not None

    async def start(self) -> None:
        """Begins the fault. Raises FailedPrecondition if it is active already, or cannot be injected."""
        if self._applied is not None:
            raise FailedPrecondition(f"the fault {self.name} has begun already")
        applied = self._applied = self._apply()
        try:
            await applied.__aenter__()
        except BaseException:
            self._applied = None
            raise

    async def heal(self) -> None:
        """Ends the fault. Idempotent."""
        applied, self._applied = self._applied, None
        if applied is not None:
            await applied.__aexit__(None, None, None)

    async def __aenter__(self) -> InjectedFault:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.heal()


@dataclass
class CallFault(Generic[F]):
    """A fault of calls that has begun. `left` is how many calls it still hits, None for all; `retry_after` is in
    seconds."""

    fault: F
    left: int | None
    retry_after: float


class CallFaults(Generic[F]):
    """The faults of the calls of one model or tool. Of several active ones the last hits."""

    def __init__(self, kind: type[F]) -> None:
        self.hits = 0
        self._kind = kind
        self._active: list[CallFault[F]] = []

    def inject(self, fault: F | str, times: int | None, retry_after: float = 0.0) -> InjectedFault:
        """Returns a fault that hits all calls from its start until it is healed, or the first `times` of them.

        Raises InvalidArgument if there is no fault of this name, `times` is below 1, or `retry_after` is negative.
        """
        kind = fault_of(self._kind, fault)
        if times is not None and times < 1:
            raise InvalidArgument(f"times must be at least 1, not {times}")
        if not retry_after >= 0:
            raise InvalidArgument(f"retry_after must be at least 0 s, not {retry_after!r}")
        return InjectedFault(kind, lambda: self._apply(CallFault(kind, times, retry_after)))

    def hit(self) -> CallFault[F] | None:
        """Returns the fault that hits a call which begins now, or None."""
        active = next((each for each in reversed(self._active) if each.left != 0), None)
        if active is not None:
            active.left = None if active.left is None else active.left - 1
            self.hits += 1
        return active

    @asynccontextmanager
    async def _apply(self, active: CallFault[F]) -> AsyncIterator[None]:
        self._active.append(active)
        try:
            yield
        finally:
            # by identity: two faults of the same name are equal
            self._active[:] = [each for each in self._active if each is not active]
