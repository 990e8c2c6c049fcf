"""Has the attempts and the callers of a recorded run act as they did, in the recorded order."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client
from archon.context import ANONYMOUS
from archon.errors import ArchonError, FailedPrecondition
from archon.security.authenticator import Caller, Connection, Open, Pair
from archon.status import to_failure
from archon.types import RunBreakpoint
from archon.types.part import to_parts
from archon_services.replay.clock import ScriptedRunClock
from archon_services.replay.frames import for_anyone
from archon_services.replay.gate import ScriptedGate
from archon_services.replay.naming import Names
from archon_services.replay.player import PlayedAttempt, Player
from archon_services.replay.recorded_run import MAX_FIELDS, FieldDifference, Recording, shown
from archon_services.replay.script import DISPATCHED, DUE, GONE, Awaited, Cue, Script

PATIENCE: Final = 10.0
"""Seconds that the next thing may take, while no live agent works; beyond the recorded ones, if the time passes by
itself."""

LONGEST: Final = 60.0
"""The most recorded seconds between two things that are waited for."""

_ENDS: Final = frozenset({"result", "retry", "input_requested", "approval_requested", GONE, "discarded"})


@dataclass(frozen=True, slots=True)
class OtherContext:
    """An attempt that was answered from the file, and was sent something else than in the recording."""

    task: str
    role: str
    attempt: int
    fields: tuple[FieldDifference, ...]


@dataclass(slots=True)
class Played:
    """The result of a play. `ledger` counts attempts by (role, whether it was live). `unknown` are
    tasks that the recording does not have, `late` cues that were given up."""

    ledger: dict[tuple[str, bool], int] = field(default_factory=lambda: defaultdict(int))
    contexts: list[OtherContext] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)


class RecordedCallers(Open):
    """Lets every caller in, as the one whose recorded call comes next."""

    identity: str = ANONYMOUS

    def caller(self, method: str, metadata: Iterable[Pair], connection: Connection) -> Caller:
        """Returns a caller of the default tenant."""
        return Caller(identity=self.identity or ANONYMOUS)


class Conductor:
    """Plays a script in a run. `watched` takes the events of the run in order; `play` returns when the script is over.
    Roles in `live` are not played. With `strict`, an attempt that is sent something else than in the recording
    fails."""

    def __init__(
        self,
        recording: Recording,
        script: Script,
        *,
        live: Collection[str] = (),
        strict: bool = False,
        clock: ScriptedRunClock | None = None,
    ) -> None:
        """`clock` is the run's, None if its time passes by itself."""
        self.played = Played()
        self.run_id = ""
        self._recording, self._script, self._strict = recording, script, strict
        self._live = frozenset(live)
        self._clock = clock
        self._names = Names()
        self._changed = asyncio.Event()
        self.player: Player
        """The played agents, which are set before the run begins."""
        self.callers = RecordedCallers()
        self._held: dict[tuple[str, int], PlayedAttempt] = {}
        self._allowed: Counter[str] = Counter()
        """How many attempts of a role may be dispatched, in all."""
        self._assigned: Counter[str] = Counter()
        """How many were."""
        self._early: dict[str, list[PlayedAttempt]] = defaultdict(list)
        """Attempts that were assigned before the event that creates their task was seen."""
        self._waiting: defaultdict[Awaited, deque[Cue]] = defaultdict(deque)
        self._left: defaultdict[tuple[str, int], int] = defaultdict(int)
        """Cues with frames that an attempt has before it."""
        self._working: set[tuple[str, int]] = set()
        """Live attempts in progress."""
        self._asked: dict[str, str] = {}
        """The last question of each task."""
        self._unreachable: set[tuple[str, int]] = set()
        self._stopped: list[PlayedAttempt] = []
        """Attempts that the orchestrator has asked to end, and that have not."""
        self.ended = False
        self._is_over = False
        scripted = [cue.dispatch for cue in script.cues if cue.needs_slot and cue.role not in self._live]
        self.gate = ScriptedGate(self._names, scripted, script.names.ids if clock is not None else ())
        for cue in script.cues:
            self._waiting[cue.awaited].append(cue)
            if cue.frames and cue.role not in self._live:
                self._left[cue.task, cue.attempt] += 1
        self._recorded_roles = {
            (script.names.tasks[task_id], attempt)
            for task_id, attempt in recording.assigned
            if task_id in script.names.tasks
        }

    # From the played agents

    def assigned(self, attempt: PlayedAttempt) -> None:
        """Keeps an attempt for its cues."""
        self._assigned[attempt.role] += 1
        name = self._names.tasks.get(attempt.ref.task_id)
        if name is None:
            self._early[attempt.ref.task_id].append(attempt)
            return
        self._hold(name, attempt)

    def cancelled(self, attempt: PlayedAttempt) -> None:
        """Ends an attempt at once, unless the recording has a result of it that comes yet, or none at all."""
        key = self._names.tasks.get(attempt.ref.task_id, ""), attempt.ref.attempt
        if self._is_over or not (self._left[key] or (self._clock is not None and self._is_recorded(*key))):
            attempt.send(_result(common_pb2.TASK_STATE_CANCELED))
        else:
            self._stopped.append(attempt)

    def _hold(self, name: str, attempt: PlayedAttempt) -> None:
        number = attempt.ref.attempt
        self.played.ledger[attempt.role, False] += 1
        self._held[name, number] = attempt
        if self._is_over:
            return  # it is cancelled with the run
        if not self._left[name, number] and not self._is_recorded(name, number):
            self.played.unknown.append(f"{name}, attempt {number}")
            error = FailedPrecondition(f"the recording has no attempt {number} at {name}", reason="SCRIPT_EXHAUSTED")
            attempt.send(_result(common_pb2.TASK_STATE_FAILED, error))
        elif (other := self._other_context(name, attempt)) is not None:
            self.played.contexts.append(other)
            if self._strict:
                paths = ", ".join(each.path for each in other.fields)
                error = FailedPrecondition(f"{name} was sent another {paths} than in the recording")
                attempt.send(_result(common_pb2.TASK_STATE_FAILED, error))
        self._changed.set()

    def _is_recorded(self, name: str, number: int) -> bool:
        return (name, number) in self._recorded_roles

    def _other_context(self, name: str, attempt: PlayedAttempt) -> OtherContext | None:
        task_id = self._script.names.ids.get(name, "")
        recorded = self._recording.assigned.get((task_id, attempt.ref.attempt))
        if recorded is None:
            return None
        one, other = _content(recorded), _content(attempt.task)
        found = tuple(
            FieldDifference(path, shown(one.get(path, "")), shown(other.get(path, "")))
            for path in sorted({*one, *other})
            if one.get(path) != other.get(path)
        )
        return OtherContext(name, attempt.role, attempt.ref.attempt, found[:MAX_FIELDS]) if found else None

    # From the run

    def watched(self, event: run_pb2.RunEvent) -> None:
        """Takes the next event of the run."""
        name = self._names.add(event)
        kind: str = event.WhichOneof("event") or ""
        for attempt in self._early.pop(event.task.task_id, []):
            self._hold(name, attempt)
        number = event.task.attempt
        if kind == DISPATCHED and event.dispatched.role in self._live:
            self._working.add((name, number))
            self.played.ledger[event.dispatched.role, True] += 1
        if kind == "task_state" and name not in self._script.names.ids:
            self._allow(event.task_state.role)  # the recording has no such task
        if kind == "task_state":
            self.gate.look_again()
        kind = GONE if kind in ("lost", "rejected") else kind
        if kind in _ENDS or (kind == "task_state" and not event.task_state.stopping):
            self._working.discard((name, number))
        if kind in ("input_requested", "approval_requested"):
            self._asked[name] = getattr(event, kind).input_id
        self.ended = self.ended or kind == "run_state"
        for awaited in ((name, number, kind), (self._names.events[event.seq], 0, DUE)):
            if waiting := self._waiting.get(awaited):
                self._finish(waiting.popleft())
        self._changed.set()

    def _finish(self, cue: Cue) -> None:
        if not cue.over:
            cue.over = True
            if cue.kind == DUE and self._clock is not None:
                self._clock.ticks = False  # what else is due comes with cues of its own
            if cue.needs_slot and cue.kind != DISPATCHED:
                self.gate.close(*cue.dispatch)  # it was held, and comes again
            if cue.frames and cue.role not in self._live:
                self._left[cue.task, cue.attempt] -= 1

    def _allow(self, role: str) -> None:
        if role not in self._live:
            self._allowed[role] += 1
            self.player.allow(role)

    # The script

    async def play(self, client: Client) -> None:
        """Plays the cues, each once all before it are over. One that does not come in time is given up, and noted."""
        before = self._script.cues[0].time if self._script.cues else 0.0
        for cue in self._script.cues:
            patience = PATIENCE
            if self._clock is not None:
                self._clock.ticks = False
                self._clock.move_to(cue.time)
            else:
                patience += min(LONGEST, max(0.0, cue.time - before))
                before = cue.time
            if cue.role in self._live and cue.call is None and cue.kind != "result":
                continue
            await self._play(cue, client, patience)
            if self.ended:
                break
        self._is_over = True
        for attempt in self._stopped:
            attempt.send(_result(common_pb2.TASK_STATE_CANCELED))

    async def _play(self, cue: Cue, client: Client, patience: float) -> None:
        sent = False
        if cue.needs_slot:
            self.gate.admit(*cue.dispatch)
        clock = asyncio.get_running_loop().time
        until = clock() + patience
        while not cue.over and not self.ended:
            self._changed.clear()
            if self._clock is not None and (cue.needs_slot or cue.kind == DUE):
                self._clock.ticks = cue.kind == DUE
                self._clock.ring()
            if cue.needs_slot and self._allowed[cue.role] <= self._assigned[cue.role]:
                self._allow(cue.role)  # again, if another task of the role came first
            if not sent and cue.call is not None and self._may_call(cue):
                sent = True
                if not await self._call(cue, client):
                    return
            attempt = self._held.get((cue.task, cue.attempt))
            if not sent and cue.frames and attempt is not None and cue.role not in self._live:
                sent = True
                again = cue.kind == "discarded"  # a late result may come several times
                if attempt.ended and not attempt.lost and not again:  # for another reason than in the recording
                    self._finish(cue)
                    return
                for frame in cue.frames:
                    attempt.send(self._adapted(frame), again=again)
            if _is_over(cue):
                return
            if (cue.task, cue.attempt) in self._unreachable or not await self._change(until, clock):
                self._unreachable.add((cue.task, cue.attempt))
                self.played.late.append(f"event {cue.seq} ({_words(cue.kind)}{' of ' + cue.task if cue.task else ''})")
                self._finish(cue)
                return

    def _may_call(self, cue: Cue) -> bool:
        """An answer waits for the question of a live agent."""
        return cue.kind != "input_given" or cue.role not in self._live or cue.task in self._asked

    async def _change(self, until: float, clock: object) -> bool:
        """Waits for a change; returns False if none has come in time. A live agent may take its time."""
        while not self._changed.is_set():
            left = until - asyncio.get_running_loop().time()
            if left <= 0 and not self._working:
                return False
            try:
                async with asyncio.timeout(max(0.05, min(left, 1.0))):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return until > asyncio.get_running_loop().time() or bool(self._working)

    def _adapted(self, frame: session_pb2.AgentFrame) -> session_pb2.AgentFrame:
        """Returns a frame with the ids and the numbers of this run in place of the recorded ones."""
        kind = frame.WhichOneof("frame")
        if self._clock is None and kind == "ask":
            return for_anyone(frame)
        if kind not in ("result", "send_message"):
            return frame
        adapted = session_pb2.AgentFrame()
        adapted.CopyFrom(frame)
        recorded = self._script.names
        if kind == "send_message":
            message = adapted.send_message
            message.receiver_id = self._task_id(message.receiver_id)
            message.correlation_id = self._task_id(message.correlation_id)
            return adapted
        if adapted.result.HasField("input_request") and self._clock is None:
            adapted = for_anyone(adapted)
        for ref in adapted.result.used:
            if ref.seq and ref.run_id == self._recording.run_id:
                ref.run_id, ref.seq = self.run_id, self._names.seqs.get(recorded.events[ref.seq], ref.seq)
        read = adapted.result.messages_read
        adapted.result.messages_read = self._names.seqs.get(recorded.events.get(read, ""), 0)
        return adapted

    def _task_id(self, task_id: str) -> str:
        name = self._script.names.tasks.get(task_id)
        return self._names.ids.get(name, task_id) if name is not None else task_id

    async def _call(self, cue: Cue, client: Client) -> bool:
        """Calls as the recorded caller did. Returns False, and notes it, if the call is refused."""
        event = cue.call
        assert event is not None
        try:
            match cue.kind:
                case "input_given":
                    given = event.input_given
                    task_id, slash, own = given.input_id.partition("/")
                    decision = question_pb2.Decision.Name(given.decision).removeprefix("DECISION_").lower()
                    asked = f"{self._task_id(task_id)}{slash}{own}"
                    self.callers.identity = given.identity
                    await client.respond(
                        self.run_id,
                        self._asked[cue.task] if cue.role in self._live else asked,
                        to_parts(given.parts) if given.parts else "",
                        decision="" if decision == "unspecified" else decision,
                    )
                case "cancel_requested":
                    await client.cancel(self.run_id, event.cancel_requested.reason)
                case "paused":
                    await client.pause(self.run_id)
                case "resumed":
                    await client.resume(self.run_id)
                case "breakpoints_set":
                    texts = [RunBreakpoint(each).text for each in event.breakpoints_set.breakpoints]
                    await client.set_breakpoints(self.run_id, texts)
                case "planned":
                    await self._edit_plan(cue.plan_json, client)
        except ArchonError as error:
            self.played.late.append(f"event {cue.seq} ({_words(cue.kind)}): {error.message}")
            self._finish(cue)
            return False
        return True

    async def _edit_plan(self, plan_json: str, client: Client) -> None:
        run = await client.get(self.run_id)
        await client.edit_plan(self.run_id, plan_json, expected_seq=run.proto.plan.change_seq)


def _is_over(cue: Cue) -> bool:
    return cue.over


def _content(task: agent_pb2.AssignTask) -> dict[str, object]:
    """The task as its agent sees it, without ids and times."""
    found: dict[str, object] = {
        "input": tuple(_text(part) for part in task.input),
        "step": task.step_id,
        "expected_output": task.expected_output,
        "tool_args": task.tool_args_json,
        "allowed_tools": tuple(task.allowed_tools),
        "refusal": task.refusal,
    }
    for index, item in enumerate(task.context):
        found[f"context[{index}] ({item.ref.role})"] = tuple(_text(part) for part in item.parts)
    for index, part in enumerate(task.resume.inputs):
        found[f"answer of a person [{index}]"] = _text(part)
    for index, delegation in enumerate(task.resume.delegations):
        found[f"result of delegation [{index}]"] = tuple(_text(part) for part in delegation.result.output)
    return found


def _text(part: common_pb2.Part) -> str:
    return part.text if part.HasField("text") else part.SerializeToString(deterministic=True).hex()


def _result(state: common_pb2.TaskState.ValueType, error: ArchonError | None = None) -> session_pb2.AgentFrame:
    result = agent_pb2.TaskResult(state=state)
    if error is not None:
        result.failure.CopyFrom(to_failure(error))
    return session_pb2.AgentFrame(result=result)


def _words(kind: str) -> str:
    return kind.replace("_", " ")
