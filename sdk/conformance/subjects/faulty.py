"""The subject of the SDK for Python with one fault: python faulty.py FAULT agent|client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final

import python_subject

from archon import client, context, frames, status
from archon.agent import attempt, attempt_table, server, session, task
from archon.api.agent.v1 import session_pb2
from archon.errors import Internal, LeaseExpired
from archon.registry import keepalive, registration_handle
from archon.tools.caller import leased_tool
from archon.tools.owner import kept_results, tool_owner

Session, Attempt, Server = session.AgentSession, attempt.Attempt, server.AgentServer
Table, Channel = attempt_table.AttemptTable, frames.Channel


def nothing(*_: Any, **__: Any) -> None:
    """Takes any arguments and returns None: stands in for a function that a fault leaves out."""


def around(owner: Any, name: str, change: Callable[..., Any]) -> Callable[[], None]:
    """Replaces a function by `change`, which gets it as its first argument."""

    def patch() -> None:
        original = getattr(owner, name)
        setattr(owner, name, lambda *given, **more: change(original, *given, **more))

    return patch


def without(owner: Any, name: str) -> Callable[[], None]:
    """Replaces a function by one that does nothing."""
    return lambda: setattr(owner, name, nothing)


def heartbeat(echo: Callable[[int], int | None]) -> Callable[[], None]:
    """Echoes another counter, or nothing."""

    def change(original: Any, self: Any, frame: Any, arm: Any) -> None:
        if arm != "heartbeat":
            original(self, frame, arm)
        elif (counter := echo(frame.heartbeat.counter)) is not None:
            self.queue.put(session_pb2.AgentFrame(heartbeat=session_pb2.Heartbeat(echo=counter)))

    return around(Session, "_session_frame", change)


def twice(original: Any, self: Any, outcome: Any) -> None:
    if self.working:
        send = self.send
        self.send = lambda content, sequenced=True: (send(content, sequenced), send(content, sequenced))[0]
    original(self, outcome)


def dropped(original: Any, self: Any, content: Any, sequenced: bool = True) -> None:
    if self.session is not None:
        original(self, content, sequenced)


def stopped(original: Any, self: Any, ended: Any) -> None:
    for each in self.attempts:
        if each.session is ended:
            each.cancel()
    original(self, ended)


def restarts(original: Any, self: Any, *given: Any) -> None:
    original(self, *given)
    self.channel._sent = 0
    self.channel._unacked.clear()


def skips(original: Any, self: Any, content: Any, **more: Any) -> Any:
    if more.get("sequenced", True):
        self._sent += 1
    return original(self, content, **more)


def other_attempt(original: Any, self: Any, ref: Any, **more: Any) -> None:
    original(self, ref, **more)
    self.ref.attempt = 1


def kept_epoch(original: Any, self: Any, bound: Any, epoch: int) -> None:
    original(self, bound, self.ref.epoch)


def early_ready(original: Any, self: Any, agent: Any) -> None:
    original(self, agent)
    self.queue.put(session_pb2.AgentFrame(ready=session_pb2.Ready(instance_id=agent.instance_id, protocol=1)))


def fatal(original: Any, *given: Any) -> Any:
    return session.StreamRefused("what is that", reason="UNKNOWN_FRAME")


def open_doors(original: Any, self: Any, superseded: Any, bound: Any) -> Any:
    draining, self._draining = self._draining, False
    try:
        return original(self, superseded, bound)
    finally:
        self._draining = draining


def applied(*verdicts: frames.Verdict) -> Callable[..., Any]:
    def change(original: Any, self: Any, sequence: int) -> frames.Verdict:
        verdict = original(self, sequence)
        return frames.Verdict.APPLY if verdict in verdicts else verdict

    return change


def sequenced_progress(original: Any, self: Any, content: Any, sequenced: bool = True) -> None:
    original(self, content, True)


def all_features(original: Any, self: Any, request: Any) -> None:
    del request.features[:]
    request.features.extend(frames.FEATURES)
    original(self, request)


def any_instance(original: Any, self: Any, request: Any) -> None:
    request.instance_id = self._agent.instance_id
    original(self, request)


def no_replacement(original: Any, self: Any, opened: Any) -> int:
    older, self._sessions = self._sessions, []
    try:
        return int(original(self, opened))
    finally:
        self._sessions = [*older, *self._sessions]


def leaks(original: Any, raised: BaseException, kind: str = "") -> Any:
    known = original(raised, kind)
    return known if known is raised else Internal(str(raised), kind=kind)


def unnamed(original: Any, error: Any) -> Any:
    failure = original(error)
    failure.reason = 1
    return failure


def characters(original: Any, self: Any, text: str) -> None:
    before = self._offset
    original(self, text)
    self._offset = before + len(text)


def from_the_start(original: Any, self: Any, run_id: str, after_seq: int = 0, **more: Any) -> Any:
    return original(self, run_id, 0, **more)


def no_metadata(original: Any, given: Any) -> Any:
    error = original(given)
    error.metadata.clear()
    return error


def fresh_id(original: Any, self: Any, *given: Any, **more: Any) -> Any:
    more.pop("request_id", None)
    return original(self, *given, **more)


FAULTS: Final[dict[str, Callable[[], None]]] = {
    "heartbeat-not-echoed": heartbeat(lambda _: None),
    "heartbeat-echoed-wrongly": heartbeat(lambda counter: counter + 1),
    "acks-forgotten": without(Session, "_flush_acks"),
    "credit-ignored": without(Server, "refusal"),
    "credit-not-announced": without(Session, "credit"),
    "stale-epoch-accepted": without(Table, "check_epoch"),
    "epoch-not-taken-over": around(Attempt, "bind", kept_epoch),
    "other-orchestrators-obeyed": around(Attempt, "heeds", lambda *_: True),
    "result-sent-twice": around(Attempt, "_finish", twice),
    "parked-result-dropped": around(Attempt, "send", dropped),
    "tasks-end-with-their-stream": around(Server, "stream_ended", stopped),
    "cancel-ignored": without(Attempt, "cancel"),
    "deadline-not-kept": without(Attempt, "_start_timer"),
    "clock-runs-while-a-person-is-asked": without(Attempt, "stop_clock"),
    "wrong-attempt-in-the-reference": around(Channel, "__init__", other_attempt),
    "sequences-restart": around(Attempt, "bind", restarts),
    "sequences-skip": around(Channel, "stamp", skips),
    "gaps-applied": around(Channel, "take", applied(frames.Verdict.GAP)),
    "copies-applied": around(Channel, "take", applied(frames.Verdict.DUPLICATE)),
    "ready-before-open": around(Session, "__init__", early_ready),
    "wrong-instance-served": around(Session, "_open", any_instance),
    "older-stream-kept": around(Server, "session_opened", no_replacement),
    "unknown-frame-kills-the-stream": around(session, "unknown", fatal),
    "refusals-of-frames-not-sent": without(Session, "_put_error"),
    "drain-takes-new-tasks": around(Server, "refusal", open_doors),
    "drain-not-announced": without(Session, "drain"),
    "registration-not-ended": around(registration_handle.RegistrationHandle, "_close", lambda _, self: self.abandon()),
    "registration-not-renewed": without(keepalive.Keepalive, "add"),
    "registration-not-made-again": without(registration_handle.RegistrationHandle, "renewal"),
    "progress-sequenced": around(Attempt, "send", sequenced_progress),
    "records-lost": without(Attempt, "send_records"),
    "features-not-agreed": around(Session, "_open", all_features),
    "text-of-a-panic-leaks": around(status, "as_error", leaks),
    "reasons-lost": around(status, "to_failure", unnamed),
    "sizes-not-checked": without(Channel, "check_size"),
    "adoption-not-answered": without(Attempt, "send_adopted"),
    "results-not-offered": without(Server, "_offer"),
    "acks-ignored": without(Channel, "acked"),
    "offsets-in-characters": around(task.TaskContext, "write", characters),
    "watch-from-the-start": around(client.Client, "watch", from_the_start),
    "metadata-of-errors-lost": around(status, "from_status", no_metadata),
    "request-id-not-kept": around(client.Client, "submit", fresh_id),
    "keys-of-tools-forgotten": without(kept_results.KeptResults, "begin"),
    "revoked-calls-not-marked": around(tool_owner, "_revoked", lambda _: LeaseExpired("the lease was revoked")),
    "calls-of-tools-repeated-that-may-have-acted": around(leased_tool, "was_not_begun", lambda *_: True),
    "trace-of-clients-lost": around(context, "trace", lambda _: ("", "")),
}


if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    asyncio.run(python_subject.agent() if sys.argv[2] == "agent" else python_subject.client())
