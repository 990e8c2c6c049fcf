"""Plays scenarios of agents, as their orchestrators."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from archon.api.agent.v1 import session_pb2
from archon.conformance.bench import Bench
from archon.conformance.case import Case
from archon.conformance.patterns import fault, resolve, shown
from archon.conformance.peers.streams import MAX_MESSAGE, DialledStream, Received, Stream
from archon.conformance.play import ScenarioFailed
from archon.conformance.standing import StandingRules
from archon.conformance.tool_calls import ToolCalls
from archon.conformance.values import fill
from archon.frames import FEATURES
from archon.wire import encode_varint

SEQUENCED: Final = frozenset(
    {
        "assign_task",
        "cancel_task",
        "delegate_result",
        "budget_grant",
        "update_memory",
        "input",
        "message",
        "message_result",
    }
)
SPARE_WITHIN: Final = 15.0
"""Seconds within which a stream must wait for Open: an agent may attach again after 5 s, with jitter."""

FORGOTTEN: Final = 1_000_000
"""The epoch in which a scenario's attempts are dropped at its end."""


class AgentPlay(ToolCalls):
    """One scenario of an agent: its streams, and the frames that came."""

    def __init__(self, case: Case, bench: Bench, number: int, pace: float) -> None:
        super().__init__(case, bench, number, pace)
        self.streams: dict[str, Stream] = {}
        self._current = ""
        self._rules = StandingRules(self.id)
        self._sequences: dict[tuple[str, int], int] = {}
        self._refs: dict[str, dict[str, Any]] = {}
        self._nevers: list[tuple[Any, str, int]] = []

    # Streams

    def stream(self, step: Mapping[str, Any]) -> Stream:
        """The stream that a step names, by default the last one."""
        return self.streams[step.get("on", self._current)]

    async def do_connect(self, value: Any, step: Mapping[str, Any]) -> None:
        """A stream without Open."""
        value = resolve(value or {}, self.names)
        name = value.get("stream", f"s{len(self.streams) + 1}")
        if self.bench.attached:
            try:
                stream: Stream = await self.bench.attach_point.spare(max(SPARE_WITHIN, self.window(step)[1]))
            except TimeoutError:
                raise ScenarioFailed("the agent has opened no stream on which a session could be opened") from None
            stream.name = name
        else:
            headers = {str(key): str(text) for key, text in value.get("headers", {}).items()}
            stream = DialledStream(name, self.bench.dial(), tuple(headers.items()))
        self.streams[name] = stream
        self._current = name

    async def do_open(self, value: Any, step: Mapping[str, Any]) -> None:
        """A stream, Open, and the agent's Ready."""
        value = dict(resolve(value or {}, self.names))
        await self.do_connect({key: value.pop(key) for key in ("stream", "headers") if key in value}, step)
        ready, wait = value.pop("ready", {}), value.pop("wait", True)
        await self._send_open(value)
        if wait:
            await self.do_expect({"ready": {"protocol": 1, **ready}}, step)

    async def _send_open(self, value: dict[str, Any]) -> None:
        orchestrator = f"{self.id}-{value.pop('as', 'o1')}"
        opening = {
            "orchestrator_id": orchestrator,
            "instance_id": self.names["instance"],
            "protocol": 1,
            "features": list(FEATURES),
            "heartbeat_interval": 0.5,
            "silence_limit": 2.0,
            **value,
        }
        self.stream({}).limit = value.get("max_message_bytes", 0) or MAX_MESSAGE
        await self._send([{"open": opening}], {})

    async def do_break(self, name: Any, step: Mapping[str, Any]) -> None:
        await self.streams[name or self._current].break_off()

    async def do_half_close(self, name: Any, step: Mapping[str, Any]) -> None:
        await self.streams[name or self._current].half_close()

    async def do_ended(self, pattern: Any, step: Mapping[str, Any]) -> None:
        """The agent ends the stream: with OK if the pattern is `OK`, or with an error."""
        stream = self.stream(step)
        earliest, latest = self.window(step)
        if not await self.until(lambda: stream.over, lambda: self._changed(stream), latest):
            raise ScenarioFailed(f"the stream has not ended within {latest:g} s; {self.came(stream)}")
        if time.monotonic() - self.since < earliest:
            raise ScenarioFailed(f"the stream has ended before {earliest:g} s")
        if self.bench.attached:
            return  # a client has no status to end a stream with
        error = stream.error
        seen = "OK" if error is None else {"code": error.code, "reason": error.reason, "message": str(error)}
        if why := fault(pattern, seen, self.names):
            raise ScenarioFailed(f"the stream ended: {why}")

    async def do_lives(self, value: Any, step: Mapping[str, Any]) -> None:
        """The stream has not ended: a heartbeat is echoed."""
        counter = 900_000 + len(self._rules._heartbeats)
        await self._send([{"heartbeat": {"counter": counter}}], step)
        await self.do_expect({"heartbeat": {"echo": counter}}, step)

    # Frames to the agent

    def reference(self, value: Any) -> dict[str, Any]:
        """The reference that a step names by a text, or by an object with t, run, attempt and epoch."""
        if isinstance(value, Mapping) and not set(value) <= {"t", "run", "attempt", "epoch"}:
            return dict(value)
        named = {"t": value} if isinstance(value, str) else dict(value)
        name = named.get("t", "t1")
        before = self._refs.get(name, {})
        ref = {
            "task_id": f"{self.id}-{name}",
            "run_id": f"{self.id}-{named['run']}" if "run" in named else before.get("run_id", self.names["run"]),
            "attempt": named.get("attempt", before.get("attempt", 1)),
            "epoch": named.get("epoch", before.get("epoch", 1)),
        }
        self._refs[name] = ref
        return ref

    async def do_send(self, value: Any, step: Mapping[str, Any]) -> None:
        """One frame, or several in one message."""
        await self._send(value if isinstance(value, list) else [value], step)

    async def do_assign(self, value: Any, step: Mapping[str, Any]) -> None:
        """An assign_task whose text is a list of steps for the subject; `do` may be a text instead."""
        await self._send([self._assignment(value)], step)

    def _assignment(self, value: Mapping[str, Any]) -> dict[str, Any]:
        value = dict(value)
        task = value.pop("task", "t1")
        frame = {"sequence": value.pop("sequence")} if "sequence" in value else {}
        doing = resolve(value.pop("do", []), self.names)
        text = doing if isinstance(doing, str) else json.dumps(doing)
        return {"task": task, **frame, "assign_task": {"input": [{"text": text}], **value}}

    async def do_raw(self, value: Any, step: Mapping[str, Any]) -> None:
        """A message of these bytes, in hexadecimal digits."""
        await self.stream(step).send(bytes.fromhex(str(value)))

    async def _send(self, frames: list[Any], step: Mapping[str, Any]) -> None:
        await self.stream(step).send(b"".join(self._encoded(frame) for frame in frames))

    def _encoded(self, value: Mapping[str, Any]) -> bytes:
        frame = dict(self._assignment(value["assign"]) if "assign" in value else value)
        if "hex" in frame:
            return _framed(bytes.fromhex(frame["hex"]))
        times = frame.pop("times", 1)
        if times > 1:
            return b"".join(self._encoded(frame) for _ in range(times))
        if "task" in frame:
            frame["task"] = self.reference(frame["task"])
        frame = resolve(frame, self.names)
        self._number(frame)
        self._rules.named(frame)
        message = session_pb2.OrchestratorFrame()
        fill(message, frame)
        return _framed(message.SerializeToString())

    def _number(self, frame: dict[str, Any]) -> None:
        ref = frame.get("task")
        if ref is None or not SEQUENCED & set(frame):
            return
        key = ref.get("task_id", ""), ref.get("attempt", 0)
        frame.setdefault("sequence", self._sequences.get(key, 0) + 1)
        self._sequences[key] = max(self._sequences.get(key, 0), frame["sequence"])

    # Frames from the agent

    async def _changed(self, stream: Stream) -> None:
        stream.changed.clear()
        await stream.changed.wait()

    def pattern(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The pattern of a frame, with its task as a reference."""
        pattern = dict(value)
        task = pattern.get("task")
        if isinstance(task, str):
            pattern["task"] = {"task_id": f"{self.id}-{task}"}
        elif isinstance(task, Mapping) and "t" in task:
            rest = {key: each for key, each in task.items() if key not in ("t", "run")}
            pattern["task"] = {"task_id": f"{self.id}-{task['t']}", **rest}
        return pattern

    def _matches(self, pattern: Mapping[str, Any], received: Received) -> str:
        own = received.frame.get("task", {}).get("task_id", self.id)
        if not own.startswith(self.id) and not self.case.scenario.own:
            return "it is about a task of another scenario"
        return fault(pattern, {**received.frame, "arm": received.arm}, self.names)

    async def do_expect(self, value: Any, step: Mapping[str, Any]) -> None:
        """A frame that comes, or several in any order. Each frame is taken once."""
        for each in value if isinstance(value, list) else [value]:
            await self._expect_one(self.pattern(each), step)

    async def _expect_one(self, pattern: Mapping[str, Any], step: Mapping[str, Any]) -> Received | None:
        stream = self.stream(step)
        earliest, latest = self.window(step)
        hit: list[Received] = []
        seen = 0

        def found() -> bool:
            nonlocal seen
            new, seen = stream.frames[seen:], len(stream.frames)
            for received in new:
                if not received.taken and not self._matches(pattern, received):
                    received.taken = True
                    hit.append(received)
                    return True
            return stream.over

        came = await self.until(found, lambda: self._changed(stream), latest)
        if came and not hit and step.get("or") == "ended":
            return None
        if not hit:
            nearest = self._nearest(pattern, stream)
            raise ScenarioFailed(f"no such frame within {latest:g} s; {nearest}{self.came(stream)}")
        if earliest and hit[0].at - self.since < earliest:
            raise ScenarioFailed(f"it came after {hit[0].at - self.since:.2f} s, before {earliest:g} s")
        return hit[0]

    def _nearest(self, pattern: Mapping[str, Any], stream: Stream) -> str:
        arms = set(pattern) - {"task", "sequence", "ack", "arm"}
        for received in reversed(stream.frames):
            if not received.taken and received.arm in arms and (why := self._matches(pattern, received)):
                return f"{received.arm}: {why}; "
        return ""

    async def do_answer(self, value: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        """The result of a task is COMPLETED, with this list of values; it is acknowledged."""
        task = value.get("task", "t1")
        pattern = {"task": task, "result": {"state": "COMPLETED", "output": [{"text": {"$json": value["is"]}}]}}
        received = await self._expect_one(self.pattern(pattern), step)
        assert received is not None
        await self._send([{"task": received.frame["task"], "ack": received.frame["sequence"]}], step)

    async def do_never(self, value: Any, step: Mapping[str, Any]) -> None:
        """No such frame comes from now on; the step waits `for` some seconds."""
        stream = self.stream(step)
        never = self.pattern(value), stream.name, len(stream.frames)
        self._nevers.append(never)
        if "for" in step:
            await asyncio.sleep(float(step["for"]))
            self._check_never(*never)

    def _check_never(self, pattern: Mapping[str, Any], name: str, after: int) -> None:
        for received in self.streams[name].frames[after:]:
            if not self._matches(pattern, received):
                raise ScenarioFailed(f"must never come, and came: {shown(received.frame)}")

    def came(self, stream: Stream) -> str:
        """The last frames of a stream, for people."""
        own = [
            each
            for each in stream.frames
            if each.arm != "credit" and each.frame.get("task", {}).get("task_id", self.id).startswith(self.id)
        ]
        lines = [f"+{each.at - self.began:.2f} {shown(each.frame, 220)}" for each in own[-12:]]
        end = f"; it has ended with {stream.error!r}" if stream.over else ""
        return f"frames of {stream.name}: " + ("; ".join(lines) or "none") + end

    # The end

    async def at_end(self) -> None:
        for never in self._nevers:
            self._check_never(*never)
        if self.case.scenario.standing:
            faults = self._rules.faults(list(self.streams.values()))
            if faults:
                raise ScenarioFailed("; ".join(faults[:3]))

    async def close(self) -> None:
        alive = [stream for stream in self.streams.values() if not stream.over]
        if alive and not self.case.scenario.own:
            refs = [{**ref, "epoch": FORGOTTEN, "run_id": ref["run_id"]} for ref in self._refs.values()]
            dropped = [{"task": ref, "discarded": {"reason": "ABORTED"}} for ref in refs]
            await alive[-1].send(b"".join(self._encoded(frame) for frame in dropped))
        for stream in alive:
            await stream.half_close()
            await self.until(lambda stream=stream: stream.over, lambda stream=stream: self._changed(stream), 0.5)  # type: ignore[misc]
        for stream in self.streams.values():
            await stream.break_off()
        await super().close()


def _framed(frame: bytes) -> bytes:
    return b"\x0a" + encode_varint(len(frame)) + frame
