"""Plays scenarios of clients, as the services that they call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

from archon.conformance.bench import Bench
from archon.conformance.case import Case
from archon.conformance.patterns import fault, resolve, shown
from archon.conformance.peers.calls import Call
from archon.conformance.peers.scripted import PlainStatus, Rule, ScriptedService, mentions
from archon.conformance.play import Play, ScenarioFailed, call_fault, error_of
from archon.conformance.values import fill
from archon.errors import OperationCancelled


class ClientPlay(Play):
    """One scenario of a client: its lines, and the calls that it made."""

    def __init__(self, case: Case, bench: Bench, number: int, pace: float) -> None:
        super().__init__(case, bench, number, pace)
        self._named: dict[str, tuple[ScriptedService, Call]] = {}
        self._rules: list[tuple[ScriptedService, Rule]] = []
        self._lines_taken: set[int] = set()
        self._nevers: list[tuple[Mapping[str, Any], int]] = []
        self._last = ""

    # Lines

    async def do_call(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """A line to the subject; its id consists of the scenario's and the step's, by default `a`."""
        line = dict(resolve(value, self.names))
        line["id"] = f"{self.id}-{line.get('id', 'a')}"
        assert self.bench.subject is not None
        await self.bench.subject.call(line)

    async def do_stop(self, name: str, step: Mapping[str, Any]) -> None:
        """Cancels a call."""
        assert self.bench.subject is not None
        await self.bench.subject.call({"stop": f"{self.id}-{name}"})

    async def do_line(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """A line of the subject about a call, by default `a`, with this `result`, `error` or `event`."""
        subject = self.bench.subject
        assert subject is not None
        pattern = dict(value)
        wanted = f"{self.id}-{pattern.pop('id', 'a')}"
        earliest, latest = self.window(step)
        why = ""

        def found() -> bool:
            nonlocal why
            for number, line in enumerate(subject.lines):
                if number in self._lines_taken or line.get("id") != wanted:
                    continue
                why = fault(pattern, {key: each for key, each in line.items() if key != "id"}, self.names)
                if not why:
                    self._lines_taken.add(number)
                # Lines of a call come in order: the first that was not taken is the one that must match.
                return True
            if subject.error:
                raise ScenarioFailed(subject.error)
            return False

        if not await self.until(found, subject.changed, latest):
            raise ScenarioFailed(f"no line about it within {latest:g} s; {self._lines(wanted)}; {self._calls()}")
        if why:
            raise ScenarioFailed(f"{why}; {self._lines(wanted)}; {self._calls()}")
        if time.monotonic() - self.since < earliest:
            raise ScenarioFailed(f"the line came before {earliest:g} s")

    def _lines(self, wanted: str) -> str:
        assert self.bench.subject is not None
        own = [shown(line, 400) for line in self.bench.subject.lines if line.get("id") == wanted]
        return "lines: " + ("; ".join(own[-8:]) or "none")

    # Calls of the subject

    async def do_rpc(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """The subject calls a method; `reply`, `error`, `status`, `messages` or nothing is the answer."""
        method = value["method"]
        service = self._service_of(method, value)
        earliest, latest = self.window(step)
        why = ""
        hit: list[Call] = []

        def found() -> bool:
            nonlocal why
            for call in service.calls:
                if call.taken or call.method != method or not mentions(call, self.id):
                    continue
                if why := call_fault(call, value, self.names):
                    continue
                call.taken = True
                hit.append(call)
                return True
            return False

        async def changed() -> None:
            async with service.changed:
                await service.changed.wait()

        if not await self.until(found, changed, latest):
            raise ScenarioFailed(f"no call {method} within {latest:g} s; {why}; {self._calls()}; {self._own_lines()}")
        call = hit[0]
        if earliest and call.at - self.since < earliest:
            raise ScenarioFailed(f"{method} was called before {earliest:g} s")
        self._last = value.get("as", method)
        self._named[self._last] = service, call
        self.names["request"] = call.request
        if value.get("every"):
            self._add_rule(service, method, value)
        self._answer(service, call, value)

    def _own_lines(self) -> str:
        assert self.bench.subject is not None
        own = [shown(line, 300) for line in self.bench.subject.lines if str(line.get("id", "")).startswith(self.id)]
        return "lines: " + ("; ".join(own[-6:]) or "none")

    async def do_always(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """From now on calls of a method with this `request` get this answer at once."""
        self._add_rule(self._service_of(value["method"], value), value["method"], value)

    def _add_rule(self, service: ScriptedService, method: str, value: Mapping[str, Any]) -> None:
        def rule(call: Call) -> bool:
            if call.method != method or not mentions(call, self.id):
                return False
            if call_fault(call, {"request": value.get("request", {})}, self.names):
                return False
            self._answer(service, call, value)
            return True

        service.rules.append(rule)
        self._rules.append((service, rule))

    def _service_of(self, method: str, value: Mapping[str, Any]) -> ScriptedService:
        if "service" in value:
            return self.bench.services[value["service"]]
        for service in self.bench.services.values():
            if service.serves(method):
                return service
        raise ValueError(f"no service has the method {method}")

    def _answer(self, service: ScriptedService, call: Call, value: Mapping[str, Any]) -> None:
        if "reply" in value:
            call.answers.put_nowait(self._message(service, call, value["reply"]))
            call.answers.put_nowait(None)
            return
        for each in value.get("messages", ()):
            call.answers.put_nowait(self._message(service, call, each))
        if "error" in value:
            call.answers.put_nowait(error_of(resolve(value["error"], self.names)))
        elif "status" in value:
            code, message = value["status"]
            call.answers.put_nowait(PlainStatus(code, resolve(message, self.names)))
        elif value.get("end"):
            call.answers.put_nowait(None)

    def _message(self, service: ScriptedService, call: Call, value: Any) -> Message:
        message = service.response(call.method)
        fill(message, resolve(value, {**self.names, "request": call.request}))
        return message

    async def do_push(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """More messages, or the end, of a call that is in progress: the last one, or `rpc`."""
        service, call = self._named[value.get("rpc", self._last)]
        self._answer(service, call, value)

    async def do_requests(self, value: Any, step: Mapping[str, Any]) -> None:
        """The requests of a call whose requests are a stream, so far."""
        _, call = self._named[step.get("on", self._last)]
        _, latest = self.window(step)

        async def changed() -> None:
            call.changed.clear()
            await call.changed.wait()

        if not await self.until(lambda: not fault(value, call.requests, self.names), changed, latest):
            raise ScenarioFailed(f"the requests: {fault(value, call.requests, self.names)}")

    async def do_left(self, name: Any, step: Mapping[str, Any]) -> None:
        """The subject has ended or cancelled a call: the last one, or this one."""
        _, call = self._named[name or self._last]
        _, latest = self.window(step)
        if not await self.until(lambda: call.over, call.changed.wait, latest):
            raise ScenarioFailed(f"the call {call.method} is still in progress")

    async def do_never_called(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """No such call comes from now on, also not within the seconds of `for`."""
        count = sum(len(service.calls) for service in self.bench.services.values())
        self._nevers.append((value, count))
        await asyncio.sleep(float(step.get("for", 0)))
        self._check_nevers()

    def _check_nevers(self) -> None:
        for value, _ in self._nevers:
            service = self._service_of(value["method"], value)
            for call in service.calls:
                untaken = not call.taken and call.method == value["method"] and mentions(call, self.id)
                if untaken and not call_fault(call, value, self.names):
                    raise ScenarioFailed(f"must never be called, and was: {call.method} {shown(call.request)}")

    async def do_service(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """Stops or starts services: {orchestrator: down}; `stranger` and `impostor` start one in a guise."""
        for name, state in value.items():
            service = self.bench.services[name]
            await (service.stop() if state == "down" else service.start("" if state == "up" else state))

    def _calls(self) -> str:
        calls = [call for service in self.bench.services.values() for call in service.calls if mentions(call, self.id)]
        texts = [f"+{call.at - self.began:.2f} {call.method} {shown(call.request, 200)}" for call in calls[-8:]]
        return "calls: " + ("; ".join(texts) or "none")

    # The end

    async def at_end(self) -> None:
        self._check_nevers()

    async def close(self) -> None:
        for service, rule in self._rules:
            service.rules.remove(rule)
        for service in self.bench.services.values():
            for call in service.calls:
                if mentions(call, self.id) and not call.over:
                    call.answers.put_nowait(OperationCancelled("the scenario has ended"))
