"""Steps of scenarios about the tools that an agent shares: calls of its ToolService."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import grpc
import grpc.aio
from google.protobuf import message_factory
from google.protobuf.message import Message

from archon import status
from archon.api.tool.v1 import tool_service_pb2
from archon.conformance.agent_calls import AgentCalls
from archon.conformance.bench import Bench
from archon.conformance.case import Case
from archon.conformance.patterns import fault, resolve, shown
from archon.conformance.play import ScenarioFailed
from archon.conformance.values import fill, to_value

SERVICE = tool_service_pb2.DESCRIPTOR.services_by_name["ToolService"]


class ToolCall:
    """A call of a scenario: the messages that have come, and the end once it is known."""

    def __init__(self, channel: grpc.aio.Channel, method: str, request: Message, headers: tuple[tuple[str, str], ...]):
        self.method = method
        self.messages: list[Any] = []
        self.taken = 0
        self.end: Any = None
        """None while the call is in progress, then OK, or the error's code, reason, message, delay and metadata."""
        self.changed = asyncio.Event()
        self._channel = channel
        self._request = request
        self._headers = headers
        self._task = asyncio.create_task(self._read(), name=f"conformance: {method}")

    async def _read(self) -> None:
        method = SERVICE.methods_by_name[self.method]
        path = f"/{SERVICE.full_name}/{self.method}"
        made = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        answer = message_factory.GetMessageClass(method.output_type)
        call: Any = made(path, request_serializer=_serialized, response_deserializer=answer.FromString)
        try:
            if method.server_streaming:
                async for message in call(self._request, metadata=self._headers):
                    self._note(to_value(message))
            else:
                self._note(to_value(await call(self._request, metadata=self._headers)))
            self.end = "OK"
        except grpc.aio.AioRpcError as raised:
            error = status.from_rpc_error(raised)
            self.end = {
                "code": error.code,
                "reason": error.reason,
                "message": str(error),
                "retry_delay": error.retry_delay,
                "metadata": dict(error.metadata),
                "violations": [[each.field, each.description] for each in error.field_violations],
            }
        self.changed.set()

    def _note(self, message: Any) -> None:
        self.messages.append(message)
        self.changed.set()

    async def close(self) -> None:
        """Cancels the call. Idempotent."""
        self._task.cancel()
        await asyncio.wait({self._task})
        await self._channel.close()


class ToolCalls(AgentCalls):
    """The steps of callers of shared tools."""

    def __init__(self, case: Case, bench: Bench, number: int, pace: float) -> None:
        super().__init__(case, bench, number, pace)
        self._calls: dict[str, ToolCall] = {}

    async def do_tool(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """A call of a `method` of ToolService, named `as`. With `reply`, `messages` or `error` it ends so; without
        one it goes on beside the further steps."""
        method = value["method"]
        request = message_factory.GetMessageClass(SERVICE.methods_by_name[method].input_type)()
        fill(request, resolve(value.get("request", {}), self.names))
        headers = tuple((str(key), str(text)) for key, text in resolve(value.get("headers", {}), self.names).items())
        call = ToolCall(self.bench.dial(), method, request, headers)
        name = value.get("as", f"call-{len(self._calls)}")
        self._calls[name] = call
        if {"reply", "messages", "error"} & set(value):
            await self.do_tool_ends({"call": name, **value}, step)

    async def do_tool_says(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """The next message of a call in progress."""
        call = self._calls[value["call"]]
        if not await self._until(call, lambda: len(call.messages) > call.taken, step):
            raise ScenarioFailed(f"no further message of {call.method}; its end: {shown(call.end)}")
        if why := fault(value["message"], call.messages[call.taken], self.names):
            raise ScenarioFailed(f"{call.method}: {why}")
        call.taken += 1

    async def do_tool_ends(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """A call ends: with one `reply` or these further `messages`, and with `error` or OK."""
        call = self._calls[value["call"]]
        earliest, latest = self.window(step)
        if not await self._until(call, lambda: call.end is not None, step):
            raise ScenarioFailed(f"{call.method} has not ended within {latest:g} s; {shown(call.messages, 400)}")
        if time.monotonic() - self.since < earliest:
            raise ScenarioFailed(f"{call.method} has ended before {earliest:g} s")
        if why := fault(value.get("error", "OK"), call.end, self.names):
            raise ScenarioFailed(f"{call.method} ended: {why}; {shown(call.end)}")
        messages = call.messages[call.taken :]
        wanted = [value["reply"]] if "reply" in value else value.get("messages", [])
        if why := fault(wanted, messages, self.names):
            raise ScenarioFailed(f"{call.method}: {why}; messages: {shown(messages, 600)}")

    async def do_tool_dropped(self, name: str, step: Mapping[str, Any]) -> None:
        """Cancels a call."""
        await self._calls[name].close()

    async def _until(self, call: ToolCall, found: Any, step: Mapping[str, Any]) -> bool:
        async def changed() -> None:
            call.changed.clear()
            await call.changed.wait()

        return await self.until(found, changed, self.window(step)[1])

    async def close(self) -> None:
        for call in self._calls.values():
            await call.close()
        await super().close()


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
