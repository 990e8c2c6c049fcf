"""python -m tests.adversary.fuzz: random and mutated inputs for every RPC of every service, over bare channels.

Nothing may crash, answer UNKNOWN or INTERNAL, log a traceback, or grow: an honest run works before, during and after.
A finding is printed with the seed of its input: `--seed N --inputs 1` sends that one alone.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio
import psutil
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from archon.api.agent.v1 import agent_service_pb2, attach_service_pb2
from archon.api.audit.v1 import audit_service_pb2
from archon.api.memory.v1 import (
    long_term_memory_service_pb2,
    memory_graph_service_pb2,
    working_memory_service_pb2,
)
from archon.api.orchestrator.v1 import hook_service_pb2, orchestrator_service_pb2, schedule_service_pb2
from archon.api.registry.v1 import registry_service_pb2
from archon.api.tool.v1 import tool_service_pb2
from archon.client import Client, answer_text
from archon.interceptors.stream_status import StreamStatus
from tests.bench.processes import Processes
from tests.fixtures.waiting import hold

INPUTS: Final = 20_000
CONCURRENCY: Final = 32
DEADLINE: Final = 1.0
"""Seconds of a call; a stream that answers nothing is left then."""

MAX_GROWTH: Final = 64 * 1024 * 1024
"""Bytes that a process may grow over the second half of the inputs."""

FORBIDDEN: Final = frozenset({grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL})
MAX_REPEATED: Final = 3
MAX_DEPTH: Final = 4

TEXTS: Final = (
    *("", " ", "x", "first", "echo", "default", "0", "-1", "../../etc/passwd", "a" * 64, "A-b_c.d", "null", "{}", "[]"),
    *("\x00", "é\u202e\ufffd", "🙂" * 40, "x" * 5_000, "y" * 200_000, "'; DROP TABLE runs; --", "${HOME}", "%s%n"),
    *('{"type": "object"}', "[" * 2_000, "1.2.3", "1.*", "127.0.0.1:1", "[::1]:80", "0.0.0.0:0", "traceparent"),
)
NUMBERS: Final = (0, 1, -1, 2, 7, 100, 1_001, 2**31 - 1, -(2**31), 2**53, 2**63 - 1, -(2**63))

Metadata = tuple[tuple[str, str | bytes], ...]

MODULES: Final = {
    "registry": [registry_service_pb2, audit_service_pb2],
    "memory": [memory_graph_service_pb2, working_memory_service_pb2, long_term_memory_service_pb2],
    "orchestrator": [orchestrator_service_pb2, schedule_service_pb2, hook_service_pb2, audit_service_pb2],
    "agent": [agent_service_pb2, attach_service_pb2, tool_service_pb2],
}
"""The contract's services, by the process that is asked for them."""


@dataclass
class Known:
    """Ids that exist, so that inputs reach what lies behind a lookup."""

    texts: list[str] = field(default_factory=list)


class Dice:
    """Makes one input. Equal seeds make equal inputs, except for ids of the mesh. Half of the inputs are nearly valid,
    so that they pass the validation."""

    def __init__(self, seed: int, known: Known) -> None:
        self._random = random.Random(seed)
        self._known = known
        self._nearly_valid = self._random.random() < 0.5

    def messages(self, method: MethodDescriptor) -> list[bytes]:
        """The messages of one call: one, or several for a stream of requests."""
        count = self._random.randint(0, 5) if method.client_streaming else 1
        return [self._encoded(method.input_type) for _ in range(count)]

    def _encoded(self, kind: Descriptor) -> bytes:
        data = self.message(kind, 0).SerializeToString()
        match self._random.random():
            case chance if chance < 0.70 or self._nearly_valid:
                return data
            case chance if chance < 0.85:
                return self._mutated(data)
            case chance if chance < 0.95:
                return data[: self._random.randint(0, len(data))]
        return self._random.randbytes(self._random.choice([1, 10, 1_000, 100_000]))

    def _mutated(self, data: bytes) -> bytes:
        changed = bytearray(data or b"\x08")
        for _ in range(self._random.randint(1, 8)):
            changed[self._random.randrange(len(changed))] = self._random.randrange(256)
        return bytes(changed)

    def message(self, kind: Descriptor, depth: int) -> Message:
        """A message some of whose fields are set."""
        out = GetMessageClass(kind)()
        for descriptor in kind.fields:
            if self._random.random() < (0.35 if self._nearly_valid else 0.5) and not (
                depth >= MAX_DEPTH and descriptor.message_type is not None
            ):
                self._set(out, descriptor, depth)
        return out

    def _set(self, out: Message, descriptor: FieldDescriptor, depth: int) -> None:
        target = getattr(out, descriptor.name)
        if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
            for _ in range(self._random.randint(0, MAX_REPEATED)):
                target[self._text()] = self._text()
        elif descriptor.is_repeated:
            for _ in range(self._random.randint(0, MAX_REPEATED)):
                if descriptor.message_type is not None:
                    target.add().CopyFrom(self.message(descriptor.message_type, depth + 1))
                else:
                    target.append(self._scalar(descriptor))
        elif descriptor.message_type is not None:
            target.CopyFrom(self.message(descriptor.message_type, depth + 1))
            target.SetInParent()
        else:
            setattr(out, descriptor.name, self._scalar(descriptor))

    def _scalar(self, descriptor: FieldDescriptor) -> Any:
        match descriptor.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING if descriptor.type == FieldDescriptor.TYPE_BYTES:
                return self._random.randbytes(self._random.choice([0, 1, 100, 10_000]))
            case FieldDescriptor.CPPTYPE_STRING:
                return self._text()
            case FieldDescriptor.CPPTYPE_BOOL:
                return self._random.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM if descriptor.enum_type is not None:
                return self._random.choice([*(value.number for value in descriptor.enum_type.values), 99])
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                return self._random.choice([0.0, 0.5, -1.0, 1e308, float("inf"), float("nan")])
            case FieldDescriptor.CPPTYPE_INT32:
                small = [number for number in NUMBERS if -(2**31) <= number < 2**31]
                return self._random.choice(small[:2] if self._nearly_valid else small)
        return self._random.choice(NUMBERS[:3] if self._nearly_valid else NUMBERS)

    def _text(self) -> str:
        if self._known.texts and self._random.random() < (0.9 if self._nearly_valid else 0.3):
            return self._random.choice(self._known.texts)
        return self._random.choice(TEXTS)


@dataclass(frozen=True)
class Finding:
    """An answer that must not be."""

    seed: int
    method: str
    why: str


def insecure(_: str, target: str) -> grpc.aio.Channel:
    """Returns a bare channel."""
    return grpc.aio.insecure_channel(target, options=[("grpc.max_receive_message_length", -1)])


class Presented(Protocol):
    """What calls present, and how they may end."""

    def __call__(self, seed: int, service: str) -> tuple[Metadata, frozenset[grpc.StatusCode] | None]:
        """Returns the metadata of one call, and the codes that it may end with, None for all but FORBIDDEN."""
        ...


def nothing(seed: int, service: str) -> tuple[Metadata, frozenset[grpc.StatusCode] | None]:
    """Presents nothing, to a mesh that lets everybody in."""
    return (("archon-timeout", "x"),) if seed % 5 == 0 else (), None


class Fuzz:
    """Sends inputs to the methods of all services in turn."""

    def __init__(
        self,
        targets: dict[str, str],
        known: Known,
        presented: Presented = nothing,
        channel: Callable[[str, str], grpc.aio.Channel] = insecure,
    ) -> None:
        self.codes: Counter[str] = Counter()
        self.unauthenticated: set[str] = set()
        """The methods that a call was refused for with UNAUTHENTICATED."""
        self.findings: list[Finding] = []
        self._known = known
        self._presented = presented
        self._channels = {name: channel(name, target) for name, target in targets.items()}
        self._methods = [
            (name, method)
            for name, modules in MODULES.items()
            for module in modules
            for service in module.DESCRIPTOR.services_by_name.values()
            for method in service.methods
        ]

    async def run(self, seeds: Sequence[int]) -> None:
        """Sends one input per seed, CONCURRENCY at a time."""
        waiting = iter(seeds)

        async def worker() -> None:
            for seed in waiting:
                await self._send(seed)

        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))

    async def close(self) -> None:
        """Closes the channels."""
        for channel in self._channels.values():
            await channel.close()

    async def _send(self, seed: int) -> None:
        name, method = self._methods[seed % len(self._methods)]
        messages = Dice(seed, self._known).messages(method)
        path = f"/{method.containing_service.full_name}/{method.name}"
        metadata, allowed = self._presented(seed, name)
        try:
            code, text = await self._call(self._channels[name], path, method, messages, metadata), ""
        except grpc.aio.AioRpcError as error:
            code, text = error.code(), error.details() or ""
        if code in FORBIDDEN or (allowed is not None and code not in allowed) or "Traceback" in text:
            self.findings.append(Finding(seed, path, f"{code.name}: {text}"))
        self.codes[code.name] += 1
        if code is grpc.StatusCode.UNAUTHENTICATED:
            self.unauthenticated.add(method.name)

    async def _call(
        self, channel: Any, path: str, method: MethodDescriptor, messages: list[bytes], metadata: Metadata
    ) -> grpc.StatusCode:
        async def stream() -> AsyncIterator[bytes]:
            for message in messages:
                yield message

        more: Any = {"timeout": DEADLINE, "metadata": metadata}
        call: Any
        if not method.server_streaming:
            call = (
                channel.stream_unary(path)(stream(), **more)
                if method.client_streaming
                else channel.unary_unary(path)(messages[0], **more)
            )
            await self._ended(call, call)
            return grpc.StatusCode.OK
        call = (
            channel.stream_stream(path)(stream(), **more)
            if method.client_streaming
            else channel.unary_stream(path)(messages[0], **more)
        )
        await self._ended(call, self._read(call))
        call.cancel()
        return grpc.StatusCode.OK

    async def _read(self, call: Any) -> None:
        for _ in range(3):
            if await call.read() is grpc.aio.EOF:
                break

    async def _ended(self, call: Any, end: Awaitable[object]) -> None:
        """Waits for the end of a call. Raises the server's error, also if the call has ended during a write."""
        ended = StreamStatus(call)
        try:
            await end
        except grpc.aio.AioRpcError as raised:
            if (error := await ended.error(raised)) is not None:
                raise error from None


async def honest_run(connect: Callable[[], Client]) -> str:
    """Runs a goal as a user would; returns the run's id."""
    async with connect() as client:
        deadline = time.monotonic() + 20
        while True:
            try:
                run = (await client.submit("an honest goal", roles=["first"], wait=10)).run
            except Exception:
                if time.monotonic() > deadline:
                    raise
                await hold(0.2)
                continue
            assert answer_text(run), run
            return run.run_id


async def fuzz(processes: Processes, targets: dict[str, str], first: int, inputs: int) -> list[str]:
    """Returns what was found, as lines."""

    def connect() -> Client:
        return Client(targets["orchestrator"])

    run_id = await honest_run(connect)
    known = Known([run_id, f"{run_id}.1", "first", "second"])
    sender = Fuzz(targets, known)
    half = first + inputs // 2
    began = time.monotonic()
    await sender.run(range(first, half))
    await honest_run(connect)
    before = {pid: psutil.Process(pid).memory_info().rss for pid in processes.pids.values()}
    await sender.run(range(half, first + inputs))
    await honest_run(connect)
    await sender.close()
    print(f"{inputs:,} inputs in {time.monotonic() - began:.0f} s: {dict(sender.codes.most_common())}")
    lines = [f"seed {finding.seed}: {finding.method}: {finding.why}" for finding in sender.findings]
    for address, pid in processes.pids.items():
        grown = psutil.Process(pid).memory_info().rss - before[pid]
        if grown > MAX_GROWTH:
            lines.append(f"the process at {address} grew by {grown / 1024 / 1024:.0f} MB")
    return lines


def tracebacks(folder: Path) -> list[str]:
    """Returns the first traceback of each log below a folder."""
    lines = []
    for log in sorted(folder.rglob("*.log")):
        text = log.read_text(errors="replace")
        if (at := text.find("Traceback")) >= 0:
            lines.append(f"a traceback in {log.name}:\n{text[max(0, at - 500) :][:3_000]}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what was found. Returns 1 if there is anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, Processes(Path(folder)) as processes:
        registry, agents = processes.members()
        memory = processes.start(
            "archon_services.memory", ARCHON_REGISTRY=registry, ARCHON_DB=str(Path(folder) / "memory.db")
        )
        orchestrator = processes.orchestrator(registry, "normal", ARCHON_MEMORY=memory, ARCHON_MAX_FAILURES="0")
        targets = {"registry": registry, "memory": memory, "orchestrator": orchestrator, "agent": agents[0]}
        lines = asyncio.run(fuzz(processes, targets, given.seed, given.inputs))
        lines += tracebacks(Path(folder))
    print("\n".join(lines) or "nothing was found")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
