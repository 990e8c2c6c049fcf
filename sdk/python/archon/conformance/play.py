"""Plays a scenario: the steps that agents and clients share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from archon.conformance.bench import Bench
from archon.conformance.case import Case
from archon.conformance.patterns import fault, resolve, shown
from archon.conformance.peers.calls import Call
from archon.errors import ArchonError, FieldViolation
from archon.status import error_class

WITHIN: Final = 5.0
"""Seconds for whatever is expected, unless a step says otherwise."""

_WATCHING: Final = frozenset({"expect", "never"})
"""Steps that send nothing."""


class ScenarioFailed(Exception):
    """The subject did not meet a step, or did something that must never happen."""


class Play:
    """One scenario in progress. `names` are the values that steps refer to."""

    def __init__(self, case: Case, bench: Bench, number: int, pace: float) -> None:
        self.case = case
        self.bench = bench
        self.pace = pace
        self.id = f"c{number:04}x"
        self.names: dict[str, Any] = {"id": self.id, "run": f"{self.id}-run", "role": f"{self.id}-role"}
        self.began = time.monotonic()
        self.since = self.began
        """When the last step began that did more than watch."""
        self._seen = 0
        """Calls of the registry that a step has taken."""
        self._registry_taken: set[int] = set()

    async def run(self) -> None:
        """Plays all steps. Raises ScenarioFailed."""
        for number, step in enumerate(self.case.scenario.steps, 1):
            if step.get("only", self.case.transport) not in (self.case.transport, self.case.security):
                continue
            began = time.monotonic()
            try:
                await self.step(step)
            except (ScenarioFailed, ArchonError, ValueError, KeyError, TypeError) as error:
                text = str(error) if isinstance(error, ScenarioFailed) else f"{type(error).__name__}: {error}"
                raise ScenarioFailed(f"step {number}, {shown(step, 400)}: {text}") from error
            if not _WATCHING & step.keys():
                self.since = began
        await self.at_end()

    async def step(self, step: Mapping[str, Any]) -> None:
        """Plays a step by the `do_` method of its action, the first key of the step that has one. Raises the error of a
        failed check."""
        action = next(name for name in step if hasattr(self, f"do_{name}"))
        await getattr(self, f"do_{action}")(step[action], step)

    async def at_end(self) -> None:
        """Checks the conditions of the whole scenario."""

    async def close(self) -> None:
        """Leaves the subject as it was, for other scenarios."""

    # Waiting

    def window(self, step: Mapping[str, Any]) -> tuple[float, float]:
        """Returns the seconds before which nothing may come, and those within which it must. The first are counted from
        `since`: the runner may be late, and see a frame only shortly before its subject sends the next one."""
        within = step.get("within", WITHIN)
        earliest, latest = within if isinstance(within, list) else (0.0, within)
        return float(earliest), float(latest) * self.pace

    async def until(self, found: Callable[[], bool], changed: Callable[[], Any], seconds: float) -> bool:
        """Waits until `found` returns True; False after some seconds."""
        end = time.monotonic() + seconds
        while not found():
            left = end - time.monotonic()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(min(left, 0.25)):  # a change between the look and the wait
                    await changed()
            except TimeoutError:
                continue
        return True

    # Steps of both

    async def do_sleep(self, seconds: float, step: Mapping[str, Any]) -> None:
        await asyncio.sleep(seconds)

    async def do_signal(self, name: str, step: Mapping[str, Any]) -> None:
        assert self.bench.subject is not None
        self.bench.subject.signal(name)

    async def do_end_input(self, value: Any, step: Mapping[str, Any]) -> None:
        assert self.bench.subject is not None
        self.bench.subject.end_input()

    async def do_exit(self, pattern: Any, step: Mapping[str, Any]) -> None:
        assert self.bench.subject is not None
        earliest, latest = self.window(step)
        try:
            async with asyncio.timeout(latest):
                code = await self.bench.subject.exited()
        except TimeoutError:
            raise ScenarioFailed(f"the subject has not ended within {latest:g} s; {self.bench.subject.log()}") from None
        if time.monotonic() - self.since < earliest:
            raise ScenarioFailed(f"the subject has ended before {earliest:g} s")
        if why := fault(pattern, code, self.names):
            raise ScenarioFailed(f"the exit code {why}")

    async def do_match(self, pairs: list[list[Any]], step: Mapping[str, Any]) -> None:
        for value, pattern in pairs:
            if why := fault(pattern, resolve(value, self.names), self.names):
                raise ScenarioFailed(why)

    # The registry of an agent

    async def do_registry(self, value: Any, step: Mapping[str, Any]) -> None:
        registry = self.bench.registry
        match value:
            case "down":
                await registry.stop()
            case "up":
                await registry.start()
            case "forget":
                registry.registered.clear()
            case {"refuse": method, **error}:
                registry.refuse[method] = error_of(resolve(error["error"], self.names))
            case {"serve": method}:
                registry.refuse.pop(method, None)
            case {"never": method, "for": seconds}:
                start = len(registry.calls)
                await asyncio.sleep(seconds)
                if any(call.method == method or method == "any" for call in registry.calls[start:]):
                    raise ScenarioFailed(f"the registry was called: {_calls(registry.calls[start:])}")
            case {"seen": pattern}:
                if why := fault(pattern, [call.method for call in registry.calls], self.names):
                    raise ScenarioFailed(f"the calls of the registry: {why}")
            case {"renewed": pattern}:
                await self._registry_call(("RegisterInstance", "KeepAlive"), pattern, step)
            case {"expect": method, **patterns}:
                await self._registry_call((method,), patterns, step)
            case _:
                raise ValueError(f"unknown step of the registry: {shown(value)}")

    async def _registry_call(self, methods: tuple[str, ...], patterns: Any, step: Mapping[str, Any]) -> None:
        registry = self.bench.registry
        earliest, latest = self.window(step)
        why = ""

        def found() -> bool:
            nonlocal why
            for number, call in enumerate(registry.calls):
                if number in self._registry_taken or call.method not in methods:
                    continue
                if why := call_fault(call, patterns, self.names):
                    continue
                self._registry_taken.add(number)
                if earliest and call.at - self.since < earliest:
                    why = f"it came before {earliest:g} s"
                    continue
                return True
            return False

        async def changed() -> None:
            async with registry.changed:
                await registry.changed.wait()

        if not await self.until(found, changed, latest):
            raise ScenarioFailed(
                f"no call {' or '.join(methods)} of the registry within {latest:g} s; {why or 'none came'}; "
                f"calls: {_calls(registry.calls)}"
            )


def call_fault(call: Call, patterns: Mapping[str, Any] | None, names: dict[str, Any]) -> str:
    """Returns why a call is not as `request`, `headers` and `deadline` of a step say; empty if it is."""
    seen = {"request": call.request, "headers": call.headers, "deadline": call.deadline, "requests": call.requests}
    for name, pattern in (patterns or {}).items():
        if name in seen and (why := fault(pattern, seen[name], names)):
            return f"{name}{why if why.startswith('.') else ' ' + why}"
    return ""


def _calls(calls: list[Call]) -> str:
    return ", ".join(f"{call.method} {shown(call.request, 200)}" for call in calls[-10:]) or "none"


def error_of(value: Mapping[str, Any]) -> ArchonError:
    """Returns the error that a scenario writes."""
    return error_class(value["code"], value.get("reason", ""))(
        value.get("message", "a message"),
        reason=value.get("reason", ""),
        metadata=value.get("metadata", {}),
        kind=value.get("kind", ""),
        retry_delay=value.get("retry_delay"),
        field_violations=[FieldViolation(*pair) for pair in value.get("violations", ())],
    )
