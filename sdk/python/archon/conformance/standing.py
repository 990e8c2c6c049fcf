"""The rules for all frames of an agent, in every scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from archon.conformance.patterns import shown
from archon.conformance.peers.streams import Stream

SEQUENCED: Final = frozenset(
    {
        "result", "record", "checkpoint", "delegate", "cancel_delegation", "budget_request", "publish", "ask",
        "send_message", "subscribe",
    }
)  # fmt: skip
MAX_FRAMES: Final = 10_000


class StandingRules:
    """Knows the attempts that a scenario has named, and finds frames that no agent may send."""

    def __init__(self, scenario: str) -> None:
        self._scenario = scenario
        self._epochs: dict[tuple[str, str, int], set[int]] = {}
        self._sent: dict[tuple[str, int], int] = {}
        self._heartbeats: set[int] = {0}

    def named(self, frame: Mapping[str, Any]) -> None:
        """Notes a frame that is sent to the agent."""
        if "heartbeat" in frame:
            self._heartbeats.add(frame["heartbeat"].get("counter", 0))
        if (ref := frame.get("task")) is None:
            return
        key = ref.get("task_id", ""), ref.get("run_id", ""), ref.get("attempt", 0)
        self._epochs.setdefault(key, set()).add(ref.get("epoch", 0))
        attempt = ref.get("task_id", ""), ref.get("attempt", 0)
        self._sent[attempt] = max(self._sent.get(attempt, 0), frame.get("sequence", 0))

    def faults(self, streams: list[Stream]) -> list[str]:
        """Returns a sentence for each rule that a frame breaks."""
        found: list[str] = []
        contents: dict[tuple[str, int, int], tuple[str, Any]] = {}
        highest: dict[tuple[str, int], int] = {}
        for stream in streams:
            found += self._of_stream(stream)
            over: set[tuple[str, int]] = set()
            rejected: set[tuple[str, int]] = set()
            for received in stream.frames:
                frame, arm = received.frame, received.arm
                if arm == "heartbeat" and frame["heartbeat"].get("echo", 0) not in self._heartbeats:
                    found.append(f"{stream.name}: an echo of a heartbeat that was never sent: {shown(frame)}")
                ref = frame.get("task")
                if ref is None or not ref.get("task_id", "").startswith(self._scenario):
                    continue
                found += self._of_task(stream.name, arm, frame, ref)
                key, sequence = (ref["task_id"], ref.get("attempt", 0)), frame.get("sequence", 0)
                if arm == "progress" and key in over:
                    found.append(f"{stream.name}: progress after the result: {shown(frame)}")
                if key in rejected and (arm == "progress" or arm in SEQUENCED):
                    found.append(f"{stream.name}: {arm} after the reject: {shown(frame)}")
                if arm == "reject":
                    rejected.add(key)
                if arm == "result":
                    over.add(key)
                if arm not in SEQUENCED or not sequence:
                    continue
                content = arm, frame[arm]
                if contents.setdefault((*key, sequence), content) != content:
                    found.append(f"{stream.name}: sequence {sequence} had other content before: {shown(frame)}")
                if sequence > highest.get(key, 0) + 1:
                    found.append(f"{stream.name}: sequence {sequence} after {highest.get(key, 0)}: {shown(frame)}")
                highest[key] = max(highest.get(key, 0), sequence)
        results = [(task, attempt) for (task, attempt, _), (arm, _) in contents.items() if arm == "result"]
        found += [f"two results of attempt {one[1]} of {one[0]}" for one in set(results) if results.count(one) > 1]
        return found

    def _of_stream(self, stream: Stream) -> list[str]:
        found = []
        if stream.frames and stream.frames[0].arm not in ("ready", "failure"):
            found.append(f"{stream.name}: the first frame is {stream.frames[0].arm}, neither ready nor failure")
        if any(size > stream.limit for size in stream.sizes):
            found.append(f"{stream.name}: a message of {max(stream.sizes):,} bytes")
        counts: dict[int, int] = {}
        for received in stream.frames:
            counts[received.message] = counts.get(received.message, 0) + 1
        if any(count > MAX_FRAMES for count in counts.values()):
            found.append(f"{stream.name}: a message of {max(counts.values()):,} frames")
        return found

    def _of_task(self, name: str, arm: str, frame: Mapping[str, Any], ref: Mapping[str, Any]) -> list[str]:
        found = []
        epochs = self._epochs.get((ref["task_id"], ref.get("run_id", ""), ref.get("attempt", 0)))
        if epochs is None or ref.get("epoch", 0) not in epochs:
            found.append(f"{name}: a task reference that no orchestrator has sent: {shown(frame)}")
        sequence = frame.get("sequence", 0)
        if arm in SEQUENCED and sequence < 1:
            found.append(f"{name}: {arm} without a sequence: {shown(frame)}")
        if arm == "reject" and sequence != 1:
            found.append(f"{name}: a reject has the sequence 1: {shown(frame)}")
        if arm not in SEQUENCED and arm != "reject" and sequence:
            found.append(f"{name}: {arm} with a sequence: {shown(frame)}")
        if frame.get("ack", 0) > self._sent.get((ref["task_id"], ref.get("attempt", 0)), 0):
            found.append(f"{name}: acknowledges a sequence that was never sent: {shown(frame)}")
        return found
