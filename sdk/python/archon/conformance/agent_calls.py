"""Steps of scenarios about an agent besides its sessions: its other RPCs, its connections, and how it attaches."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from archon import status
from archon.api.agent.v1 import agent_service_pb2, agent_service_pb2_grpc
from archon.channel import agent_options
from archon.conformance.bench import ROLE, Bench
from archon.conformance.case import Case
from archon.conformance.patterns import fault, resolve, shown
from archon.conformance.peers.streams import AttachedStream
from archon.conformance.play import Play, ScenarioFailed
from archon.conformance.values import fill, to_value
from archon.principal import Kind

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class AgentCalls(Play):
    """The steps that need no session."""

    def __init__(self, case: Case, bench: Bench, number: int, pace: float) -> None:
        super().__init__(case, bench, number, pace)
        self.names["instance"] = bench.ready["instance_id"]
        self.names["address"] = bench.ready.get("address", "")
        if bench.tokens is not None:
            self.names["token"] = bench.tokens.token(Kind.SERVICE, "orchestrator", "agents")
            self.names["expired_token"] = bench.tokens.token(Kind.SERVICE, "orchestrator", "agents", -60.0)

    # Other RPCs of an agent that can be dialled

    async def do_describe(self, pattern: Any, step: Mapping[str, Any]) -> None:
        """Calls Describe. Raises ScenarioFailed if the response does not match `pattern`."""
        async with self.bench.dial() as channel:
            stub = agent_service_pb2_grpc.AgentServiceStub(channel)
            response = await stub.Describe(agent_service_pb2.DescribeRequest(), timeout=self.window(step)[1])
        if why := fault(pattern, to_value(response), self.names):
            raise ScenarioFailed(f"Describe: {why}")

    async def do_run_task(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """RunTask with a list of steps returns these `events`, or fails with `error`."""
        request = agent_service_pb2.RunTaskRequest()
        task = dict(value.get("task", {}))
        if "do" in value:
            doing = resolve(value["do"], self.names)
            task["input"] = [{"text": doing if isinstance(doing, str) else json.dumps(doing)}]
        fill(request, {"task": task})
        events: list[Any] = []
        seen: Any = "OK"
        async with self.bench.dial() as channel:
            call = agent_service_pb2_grpc.AgentServiceStub(channel).RunTask(request, timeout=self.window(step)[1])
            try:
                async for response in call:
                    events.append(to_value(response))
            except grpc.aio.AioRpcError as raised:
                error = status.from_rpc_error(raised)
                seen = {"code": error.code, "reason": error.reason, "message": str(error)}
        if why := fault(value.get("error", "OK"), seen, self.names):
            raise ScenarioFailed(f"RunTask ended: {why}")
        if "events" in value and (why := fault(value["events"], events, self.names)):
            raise ScenarioFailed(f"RunTask: {why}; events: {shown(events, 1000)}")

    async def do_deliver(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """Deliver of messages fails with `error`."""
        request = agent_service_pb2.DeliverRequest()
        fill(request, resolve(value["request"], self.names))
        seen: Any = "OK"
        async with self.bench.dial() as channel:
            try:
                stub = agent_service_pb2_grpc.AgentServiceStub(channel)
                await stub.Deliver(request, timeout=self.window(step)[1])
            except grpc.aio.AioRpcError as raised:
                error = status.from_rpc_error(raised)
                seen = {"code": error.code, "reason": error.reason, "message": str(error)}
        if why := fault(value["error"], seen, self.names):
            raise ScenarioFailed(f"Deliver: {why}")

    async def do_health(self, wanted: str, step: Mapping[str, Any]) -> None:
        """The health service says SERVING, of the server and of the session service."""
        async with self.bench.dial() as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            for service in ("", "archon.api.agent.v1.AgentService"):
                request = health_pb2.HealthCheckRequest(service=service)
                response = await stub.Check(request, timeout=self.window(step)[1])
                seen = health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)
                if seen != wanted:
                    raise ScenarioFailed(f"the health of {service or 'the server'} is {seen}, not {wanted}")

    async def do_reflection(self, wanted: str, step: Mapping[str, Any]) -> None:
        """The reflection service lists this service."""
        from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

        async with self.bench.dial() as channel:
            made: Any = reflection_pb2_grpc.ServerReflectionStub
            stub = made(channel)

            async def ask() -> Any:
                yield reflection_pb2.ServerReflectionRequest(list_services="")

            names: list[str] = []
            async for response in stub.ServerReflectionInfo(ask(), timeout=self.window(step)[1]):
                names += [service.name for service in response.list_services_response.service]
                break
        if wanted not in names:
            raise ScenarioFailed(f"reflection lists {names}, not {wanted}")

    # Connections

    async def do_dial_and_close(self, times: int, step: Mapping[str, Any]) -> None:
        """Connections that send the preface of HTTP/2, and are closed when the first byte arrives."""
        host, _, port = self.names["address"].rpartition(":")
        for _ in range(times):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.write(PREFACE + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            async with asyncio.timeout(self.window(step)[1]):
                await reader.read(1)
            writer.close()

    async def do_refuses_plain(self, value: Any, step: Mapping[str, Any]) -> None:
        """A connection in clear text is refused."""
        async with grpc.aio.insecure_channel(self.names["address"], options=agent_options()) as channel:
            stub = agent_service_pb2_grpc.AgentServiceStub(channel)
            try:
                await stub.Describe(agent_service_pb2.DescribeRequest(), timeout=self.window(step)[1])
            except grpc.aio.AioRpcError as raised:
                if raised.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    return
                raise ScenarioFailed(f"a connection in clear text ended with {raised.code()}") from None
        raise ScenarioFailed("a connection in clear text is served")

    async def do_refuses_stranger(self, value: Any, step: Mapping[str, Any]) -> None:
        """A connection with a certificate of another authority is refused."""
        async with self.bench.place.dial_as_stranger(self.names["address"], ROLE) as channel:
            stub = agent_service_pb2_grpc.AgentServiceStub(channel)
            try:
                await stub.Describe(agent_service_pb2.DescribeRequest(), timeout=self.window(step)[1])
            except grpc.aio.AioRpcError as raised:
                if raised.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    return
                raise ScenarioFailed(f"a connection of a stranger ended with {raised.code()}") from None
        raise ScenarioFailed("a certificate of another authority is accepted")

    # Attaching

    async def do_attach(self, value: Any, step: Mapping[str, Any]) -> None:
        """The orchestrator at which the agent attaches is `down` or `up`, or up in the guise of a
        `stranger` or an `impostor`; or breaks all streams: `broken`. `joined`: from now on sessions are opened on the
        streams of an agent that has attached by itself."""
        if value == "joined":
            self.bench.attached = True
        elif value == "broken":
            for stream in self.bench.attach_point.streams:
                if not stream.over:
                    await stream.break_off()
        elif value == "down":
            await self.bench.stop_attach_point()
        else:
            await self.bench.start_attach_point("" if value == "up" else value)

    async def do_spares(self, wanted: int, step: Mapping[str, Any]) -> None:
        """So many streams wait for Open, and stay so `for` some seconds."""
        point = self.bench.attach_point
        _, latest = self.window(step)
        if not await self.until(lambda: len(point.spares) == wanted, point.changed, latest):
            raise ScenarioFailed(f"{len(point.spares)} streams wait for Open, not {wanted}")
        end = time.monotonic() + float(step.get("for", 0))
        while time.monotonic() < end:
            await asyncio.sleep(0.05)
            if len(point.spares) > wanted:
                raise ScenarioFailed(f"{len(point.spares)} streams wait for Open, not {wanted}")

    async def do_streams(self, pattern: Any, step: Mapping[str, Any]) -> None:
        """All streams that the agent has opened so far: their metadata, and their first frames."""
        point = self.bench.attach_point
        _, latest = self.window(step)

        def seen() -> list[Any]:
            return [_first(stream) for stream in point.streams if stream.frames]

        if not await self.until(lambda: not fault(pattern, seen(), dict(self.names)), point.changed, latest):
            raise ScenarioFailed(f"the streams: {fault(pattern, seen(), self.names)}; {shown(seen(), 1500)}")
        fault(pattern, seen(), self.names)


def _first(stream: AttachedStream) -> dict[str, Any]:
    return {"headers": stream.headers, "first": stream.frames[0].frame, "over": stream.over}
