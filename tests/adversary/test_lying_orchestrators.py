"""A process that plays an orchestrator towards an honest agent, beside the real one: it may act only on attempts that it
assigned, or for which it claims a higher epoch. The real orchestrator's runs complete, once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from itertools import repeat

import grpc.aio
import psutil
import pytest

from archon import status
from archon.agent import AgentServer, TaskContext
from archon.agent.agent_sessions import MAX_SESSIONS, MAX_UNOPENED
from archon.agent.open_limits import ShareWindow
from archon.agent.session import AgentSession
from archon.api.agent.v1 import agent_pb2, agent_service_pb2, session_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.client import RunHandle, answer_text
from archon.errors import ResourceExhausted, SessionReplaced
from archon.testing.frame_orchestrator import FrameOrchestrator
from archon.types import TaskState
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import until
from tests.integration.services.orchestrator.troupe import Troupe

Frame = session_pb2.OrchestratorFrame
Ref = common_pb2.TaskRef
COMPLETED = TaskState.COMPLETED
MB = 1024 * 1024


class Victim:
    """An honest agent, and a run whose task is under way until `release` is set. Tasks of others end at once if their
    text is "quick"."""

    def __init__(self, mesh: ProcessMesh) -> None:
        self.role = f"victim-{uuid.uuid4().hex[:6]}"
        self.release = asyncio.Event()
        self.honest: list[int] = []
        self.agent: AgentServer
        self.handle: RunHandle
        self.ref = Ref()
        self._mesh = mesh

    async def work(self, task: TaskContext) -> str:
        """Waits until the test releases the task."""
        if task.text == "honest":
            self.honest.append(task.attempt)
        if task.text != "quick":
            await self.release.wait()
        return "the truth"

    async def start(self) -> Ref:
        """Submits the run; returns the reference of its attempt."""
        self.handle = await self._mesh.client.submit("honest", roles=[self.role])
        await until(lambda: bool(self.honest))
        run_id = self.handle.run_id
        self.ref = Ref(task_id=f"{run_id}.1", run_id=run_id, attempt=1, epoch=1)
        return self.ref

    async def unharmed(self) -> None:
        """Releases the task: its run completes with the right answer, after one execution."""
        self.release.set()
        run = await self.handle.result(timeout=15)
        assert (run.state, answer_text(run), self.honest) == (COMPLETED, "the truth", [1])


@pytest.fixture
async def victim(mesh: ProcessMesh, troupe: Troupe) -> Victim:
    victim = Victim(mesh)
    victim.agent = await troupe(victim.role, victim.work, max_tasks=4)
    return victim


Dial = Callable[[str], Awaitable[FrameOrchestrator]]


@pytest.fixture
async def dial(victim: Victim) -> AsyncIterator[Dial]:
    async with AsyncExitStack() as stack:

        async def connect(name: str) -> FrameOrchestrator:
            peer = FrameOrchestrator(victim.agent.address, orchestrator_id=name)
            await stack.enter_async_context(peer)
            return peer

        yield connect


@pytest.fixture
async def liar(victim: Victim, dial: Dial) -> FrameOrchestrator:
    peer = await dial("liar")
    await peer.open(victim.agent.instance_id)
    return peer


@pytest.fixture(autouse=True)
def _no_traceback(caplog: pytest.LogCaptureFixture) -> object:
    """No agent of this process logs an unexpected exception."""
    yield
    assert not [record.message for record in caplog.get_records("call") if record.exc_info]


def reason(failure: failure_pb2.Failure) -> str:
    return status.from_failure(failure).reason


def text(content: str) -> agent_pb2.AssignTask:
    return agent_pb2.AssignTask(input=[common_pb2.Part(text=content)])


def gap(expected: str) -> failure_pb2.Failure:
    return failure_pb2.Failure(reason=failure_pb2.ERROR_REASON_SEQUENCE_GAP, metadata={"expected": expected})


LIE = agent_pb2.TaskResult(state=COMPLETED.proto, output=[common_pb2.Part(text="a lie")])
LIES: dict[str, tuple[dict[str, int], dict[str, object], str]] = {
    "cancel": ({}, {"cancel_task": session_pb2.CancelTask()}, "PERMISSION_DENIED"),
    "cancel after a gap": ({}, {"cancel_task": session_pb2.CancelTask(), "sequence": 99}, "PERMISSION_DENIED"),
    "cancel in a lower epoch": ({"epoch": 0}, {"cancel_task": session_pb2.CancelTask()}, "STALE_EPOCH"),
    "cancel in a negative epoch": ({"epoch": -(2**63)}, {"cancel_task": session_pb2.CancelTask()}, "STALE_EPOCH"),
    "adopt": ({}, {"adopt_task": session_pb2.AdoptTask(last_applied=2**62)}, "PERMISSION_DENIED"),
    "discarded": ({}, {"discarded": session_pb2.Discarded()}, "PERMISSION_DENIED"),
    "ack": ({}, {"ack": 2**62}, "PERMISSION_DENIED"),
    "budget grant": ({}, {"budget_grant": session_pb2.BudgetGrant(request_id="b1")}, "PERMISSION_DENIED"),
    "delegate result": (
        {},
        {"delegate_result": session_pb2.DelegateResult(delegation_id="d1", result=LIE)},
        "PERMISSION_DENIED",
    ),
    "input": ({}, {"input": session_pb2.Input(input_id="q")}, "PERMISSION_DENIED"),
    "failure": ({}, {"failure": gap("1")}, "PERMISSION_DENIED"),
    "a copy of the assignment": ({}, {"assign_task": text("a lie"), "sequence": 1}, "PERMISSION_DENIED"),
    "a newer attempt": ({"attempt": 2}, {"assign_task": text("a lie"), "sequence": 1}, "PERMISSION_DENIED"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_frame_about_an_attempt_of_another_session_is_refused(
    victim: Victim, liar: FrameOrchestrator, lie: str
) -> None:
    fields, content, expected = LIES[lie]
    ref = Ref()
    ref.CopyFrom(await victim.start())
    for name, value in fields.items():
        setattr(ref, name, value)
    await liar.send(Frame(task=ref, **content))  # type: ignore[arg-type]
    assert reason((await liar.receive("failure", ref)).failure) == expected
    await victim.unharmed()


@pytest.mark.parametrize("arm", ["cancel_task", "assign_task"])
async def test_a_task_id_under_another_run_is_refused(victim: Victim, liar: FrameOrchestrator, arm: str) -> None:
    ref = await victim.start()
    other = Ref(task_id=ref.task_id, run_id="another", attempt=2, epoch=99)
    await liar.send(liar.cancellation(other) if arm == "cancel_task" else liar.assignment(other, "a lie"))
    assert reason((await liar.receive("failure", other)).failure) == "PERMISSION_DENIED"
    await victim.unharmed()


async def test_a_rejected_task_id_stays_free_for_its_run(
    victim: Victim, liar: FrameOrchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rejected attempt is remembered as over: under the liar's run, not under that of the task's id."""
    table = victim.agent.attempts
    ours, theirs = (Ref(task_id="r.1", run_id=run_id, attempt=1, epoch=1) for run_id in ("r", "liar"))
    table.mark_over(theirs)
    assert (table.is_over(ours), table.is_over(theirs)) == (False, True)


async def test_an_attempt_remembers_its_epoch_when_many_runs_are_named(
    victim: Victim, liar: FrameOrchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.attempt_table.MAX_EPOCHS", 10)
    ref = await victim.start()
    await liar.send(*(liar.adoption(liar.ref(f"t{n}", run_id=f"r{n}")) for n in range(50)))
    old = Ref(task_id=ref.task_id, run_id=ref.run_id, attempt=1, epoch=0)
    await liar.send(liar.cancellation(old))
    assert reason((await liar.receive("failure", old)).failure) == "STALE_EPOCH"
    await victim.unharmed()


async def test_a_higher_epoch_is_believed(victim: Victim, liar: FrameOrchestrator) -> None:
    """Possible today: who knows the run's id and claims a higher epoch is its new owner. The agent stops the attempt,
    and the real orchestrator's run does not complete with a wrong answer."""
    ref = await victim.start()
    ref.epoch = 2
    await liar.send(liar.adoption(ref))
    await liar.receive("adopted", ref)
    await liar.send(liar.cancellation(ref))
    assert (await liar.receive("result", ref)).result.state == common_pb2.TASK_STATE_CANCELED
    await victim.handle.cancel()
    run = await victim.handle.result(timeout=15)
    assert (run.state, answer_text(run)) == (TaskState.CANCELED, "")


async def test_a_stream_under_the_id_of_another_replaces_it_for_a_moment(victim: Victim, dial: Dial) -> None:
    """Possible today: the owner's id is public (Run.owner). The real orchestrator comes back and adopts its attempt."""
    await victim.start()
    owner = victim.agent._sessions[0].orchestrator_id
    peer = await dial(owner)
    await peer.open(victim.agent.instance_id)
    assert isinstance(await peer.ended(), SessionReplaced)
    await victim.unharmed()


@pytest.mark.parametrize(
    ("field", "seconds"), [(f, s) for f in ("park_ttl", "silence_limit") for s in (0, -(10**11), 10**11)]
)
async def test_absurd_limits_of_an_open_are_clamped(victim: Victim, dial: Dial, field: str, seconds: int) -> None:
    await victim.start()
    peer = await dial("liar")
    frame = peer.opening(victim.agent.instance_id)
    for name in (field, "heartbeat_interval", "resume_window"):
        getattr(frame.open, name).seconds = seconds
    await peer.send(frame)
    await peer.receive("ready")
    (session,) = [session for session in victim.agent._sessions if session.orchestrator_id == "liar"]
    assert 0 <= session.park_ttl <= 7 * 86_400
    assert 0 <= session._silence_limit <= 60
    await victim.unharmed()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"orchestrator_id": ""}, "INVALID_ARGUMENT"),
        ({"orchestrator_id": "x" * 100_000}, "INVALID_ARGUMENT"),
        ({"max_message_bytes": 1}, "INVALID_ARGUMENT"),
        ({"max_message_bytes": -1}, "INVALID_ARGUMENT"),
        ({"instance_id": "y" * 100_000}, "WRONG_INSTANCE"),
        ({"protocol": 0}, "PROTOCOL_MISMATCH"),
        ({"protocol": -(2**31)}, "PROTOCOL_MISMATCH"),
    ],
)
async def test_an_open_that_does_not_match_is_refused_typed(
    victim: Victim, dial: Dial, fields: dict[str, object], expected: str
) -> None:
    await victim.start()
    peer = await dial("liar")
    frame = peer.opening(victim.agent.instance_id)
    for name, value in fields.items():
        setattr(frame.open, name, value)
    await peer.send(frame)
    if expected == "INVALID_ARGUMENT":
        assert reason((await peer.receive("failure")).failure) == expected
    else:
        error = await peer.ended()
        assert error is not None
        assert error.reason == expected
    await victim.unharmed()


async def test_a_liars_frames_about_the_session_are_answered_typed(victim: Victim, liar: FrameOrchestrator) -> None:
    await victim.start()
    own = liar.ref("own")
    await liar.assign(own, "slow")
    for number in (-1, 2**63 - 1):
        await liar.send(Frame(heartbeat=session_pb2.Heartbeat(counter=number, echo=number)))
        assert (await liar.receive("heartbeat")).heartbeat.echo == number
    await liar.send(liar.opening(victim.agent.instance_id))
    assert reason((await liar.receive("failure")).failure) == "SESSION_ALREADY_OPEN"
    await liar.send(Frame(drain=session_pb2.Drain(reason="\n2026 ERROR forged\n")), Frame(failure=gap("x")))
    for expected in ("²", "-1", "9" * 10_000, ""):
        await liar.send(Frame(task=own, failure=gap(expected)))
    await liar.send(Frame(task=own, ack=-5), Frame(task=own, sequence=-9, cancel_task=session_pb2.CancelTask()))
    await liar.send_raw(b"\x0a\x08\x0a\x06\x0a\x04\xff\xfe\xff\xfe")  # a task id that is not UTF-8
    assert reason((await liar.receive("failure")).failure) == "MALFORMED_MESSAGE"
    await liar.send(Frame(heartbeat=session_pb2.Heartbeat(counter=7)))
    while (await liar.receive("heartbeat")).heartbeat.echo != 7:
        pass
    assert not [frame for frame in liar.frames if frame.HasField("failure") and reason(frame.failure) == "INTERNAL"]
    await victim.unharmed()


@pytest.mark.parametrize("field", ["task_id", "run_id"])
async def test_an_id_that_is_empty_or_too_long_is_refused(victim: Victim, liar: FrameOrchestrator, field: str) -> None:
    await victim.start()
    for value in ("", "x" * MB):
        ref = liar.ref("own")
        setattr(ref, field, value)
        await liar.send(liar.assignment(ref, "quick"))
        refused = await liar.receive("failure")
        assert reason(refused.failure) == "INVALID_ARGUMENT"
        assert refused.ByteSize() < 2_000, "what is too long is not sent back"
    await victim.unharmed()


async def test_a_task_of_absurd_values_ends_typed(victim: Victim, liar: FrameOrchestrator) -> None:
    await victim.start()
    for number, seconds in enumerate((-(10**11), 0, 10**11)):
        ref = liar.ref(f"own{number}", run_id=f"own{number}")
        task = text("quick")
        task.remaining.seconds = seconds
        task.trace.traceparent, task.trace.tracestate = "garbage\n", "x" * 10_000
        task.budget.max_tokens = task.budget.max_cost_micro_usd = -(2**62)
        task.conversation_version = -1
        await liar.send(liar.stamped(ref, Frame(assign_task=task)))
        result = await liar.result(ref)
        assert result.state in (COMPLETED.proto, common_pb2.TASK_STATE_FAILED)
    await victim.unharmed()


async def test_the_sessions_of_an_agent_are_bounded(victim: Victim, dial: Dial) -> None:
    await victim.start()
    others = len(victim.agent._sessions)
    for number in range(MAX_SESSIONS - others):
        await (await dial(f"liar-{number}")).open(victim.agent.instance_id)
    for number in range(20):
        peer = await dial(f"another-{number}")
        await peer.send(peer.opening(victim.agent.instance_id))
        error = await peer.ended()
        assert isinstance(error, ResourceExhausted)
        assert error.retry_delay
    assert len(victim.agent._sessions) == MAX_SESSIONS
    await victim.unharmed()


async def test_streams_that_never_open_make_room_for_one_that_does(
    victim: Victim, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.session.OPEN_TIMEOUT", 60.0)  # or it ends some of them first
    await victim.start()
    begun = 0
    stream_began = victim.agent.stream_began

    def counted() -> AgentSession:
        nonlocal begun
        begun += 1
        return stream_began()

    monkeypatch.setattr(victim.agent, "stream_began", counted)
    idle = []
    for number in range(1, 3 * MAX_UNOPENED + 1):  # one by one: connections that are made at the same time may fail
        idle.append(await dial(""))
        await until(lambda number=number: begun >= number)  # type: ignore[misc]
    await until(lambda: sum(stream._over for stream in idle) >= 2 * MAX_UNOPENED)
    peer = await dial("late")
    await peer.open(victim.agent.instance_id)
    await until(lambda: sum(stream._over for stream in idle) > 2 * MAX_UNOPENED)
    over = [await stream.ended() for stream in idle if stream._over]
    assert all(isinstance(error, ResourceExhausted) for error in over), over
    await victim.unharmed()


async def test_a_session_takes_no_more_than_its_share(
    mesh: ProcessMesh, victim: Victim, liar: FrameOrchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.open_limits.LOWERED_GRACE", 0.0)
    await victim.start()
    for number in range(10):
        await liar.assign(liar.ref(f"own{number}", run_id="own"), "slow")
    for _ in range(8):
        assert reason((await liar.receive("reject")).reject.failure) == "NO_CAPACITY"
    run = (await mesh.client.submit("quick", roles=[victim.role], wait=10)).run
    assert (answer_text(run), [task.attempt for task in run.tasks]) == ("the truth", [1])
    await victim.unharmed()


def test_a_lowered_share_counts_a_moment_later() -> None:
    """Tasks that were on their way are accepted."""
    window = ShareWindow()
    for share in (8, 4, 2):
        window.set(share)
        assert window.allowed == 8
    window._lowered_at = float("-inf")
    assert window.allowed == 2


async def ended(call: AsyncIterable[agent_service_pb2.RunTaskResponse]) -> str:
    """Returns the reason for which a RunTask failed; empty if it completed."""
    try:
        async for response in call:
            if response.HasField("result") and response.result.HasField("failure"):
                return reason(response.result.failure)
    except grpc.aio.AioRpcError as error:
        return status.from_rpc_error(error).reason
    return ""


async def test_calls_without_an_orchestrator_leave_its_attempts_alone(victim: Victim, liar: FrameOrchestrator) -> None:
    await victim.start()
    late = text("slow")
    late.remaining.seconds = -1
    for task in (agent_pb2.AssignTask(), late):
        call = liar.stub.RunTask(agent_service_pb2.RunTaskRequest(task=task), timeout=5)
        assert await ended(call) in ("INVALID_ARGUMENT", "DEADLINE_EXCEEDED")
    calls = [liar.stub.RunTask(agent_service_pb2.RunTaskRequest(task=text("slow")), timeout=20) for _ in range(3)]
    await until(lambda: len(victim.agent.attempts.running) == 4)
    further = liar.stub.RunTask(agent_service_pb2.RunTaskRequest(task=text("slow")), timeout=5)
    assert await ended(further) == "NO_CAPACITY"
    direct = [attempt.ref for attempt in victim.agent.attempts if attempt.ref.task_id.startswith("direct-")]
    for ref in direct:
        ref.epoch = 9
        await liar.send(liar.cancellation(ref))
        assert reason((await liar.receive("failure", ref)).failure) == "PERMISSION_DENIED"
    for call in calls:
        call.cancel()
    await victim.unharmed()


class Deaf(FrameOrchestrator):
    """Reads nothing after Ready."""

    async def _read(self) -> None:
        self.frames.extend((await self._call.read()).frames)
        self._changed.set()
        await asyncio.Event().wait()


# A real process: it neither crashes, nor logs a traceback, nor grows


@pytest.fixture
async def process(mesh: ProcessMesh) -> ServiceProcess:
    return mesh.processes[0]


async def honest_run(mesh: ProcessMesh) -> None:
    run = (await mesh.client.submit("x", roles=["requirements"], wait=15)).run
    assert (run.state, answer_text(run)) == (COMPLETED, "requirements()")
    assert [task.attempt for task in run.tasks] == [1]


def flood(liar: FrameOrchestrator) -> dict[str, Callable[[int], bytes]]:
    def message(*frames: Frame) -> bytes:
        return agent_service_pb2.SessionRequest(frames=frames).SerializeToString()

    def many(make: Callable[[int], Frame]) -> Callable[[int], bytes]:
        return lambda number: message(*(make(number * 1_000 + place) for place in range(1_000)))

    def ref(number: int) -> Ref:
        return liar.ref(f"flood{number}.1", run_id=f"flood{number}")

    return {
        "empty frames": lambda number: b"\x0a\x00" * (2 * MB),
        "heartbeats": lambda number: b"\x0a\x02\x2a\x00" * MB,
        "broken frames": lambda number: b"\x0a\x01\xff" * MB,
        "frames of 15 MB": lambda number: message(liar.assignment(ref(number), "x" * 15 * MB)),
        "adoptions": many(lambda number: liar.adoption(ref(number))),
        "cancellations": many(lambda number: liar.cancellation(ref(number))),
        "failures": many(lambda number: Frame(task=ref(number), failure=gap("no\nline"))),
        "long ids": lambda number: message(liar.adoption(liar.ref("x" * 10 * MB))),
    }


async def send_until_ended(liar: FrameOrchestrator, messages: Iterable[bytes]) -> None:
    """Sends until the agent ends the stream, or takes no more for a while."""
    try:
        for message in messages:
            await liar.send_raw(message)
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError, TimeoutError):
        return


FLOODS = [
    "empty frames",
    "heartbeats",
    "broken frames",
    "frames of 15 MB",
    "adoptions",
    "cancellations",
    "failures",
    "long ids",
]
SMOKE = (("adoptions", True), ("broken frames", False))
"""The floods of `make test`."""


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        pytest.param(kind, reads, marks=() if (kind, reads) in SMOKE else pytest.mark.slow)
        for kind in FLOODS
        for reads in (True, False)
    ],
)
async def test_a_flood_of_frames_is_not_held(
    mesh: ProcessMesh, process: ServiceProcess, kind: str, reads: bool
) -> None:
    running = psutil.Process(process.pid)
    before, logged = running.memory_info().rss, process.log.stat().st_size
    make = FrameOrchestrator if reads else Deaf
    async with make(process.address, orchestrator_id="flood", timeout=2) as liar:
        await liar.open()
        await send_until_ended(liar, (flood(liar)[kind](number) for number in range(20)))
        await honest_run(mesh)
        error = await liar.ended() if liar._over and reads else None
        assert error is None or error.code == "RESOURCE_EXHAUSTED", error
    assert running.memory_info().rss - before < 256 * MB, "two million empty frames of one message take 140 MB"
    assert process.log.stat().st_size - logged < 100_000
    assert "Traceback" not in process.log.read_text()


@pytest.mark.search
async def test_a_session_that_is_never_read_ends(victim: Victim, dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take its share of the capacity for as long as its connection lasts."""
    monkeypatch.setattr("archon.agent.session.UNREAD_TIMEOUT", 0.2)
    monkeypatch.setattr("archon.agent.agent_sessions.SWEEP_INTERVAL", 0.05)
    await victim.start()
    async with Deaf(victim.agent.address, orchestrator_id="liar") as liar:
        await liar.open(victim.agent.instance_id)
        lost = [liar.adoption(liar.ref("x" * 250, run_id="y" * 250)) for _ in range(200)]
        message = agent_service_pb2.SessionRequest(frames=lost).SerializeToString()
        sending = asyncio.create_task(send_until_ended(liar, repeat(message)))
        await until(lambda: len(victim.agent._streams) == len(victim.agent._sessions) == 1, 10.0)
        assert [session.orchestrator_id for session in victim.agent._sessions] != ["liar"]
        sending.cancel()
        await victim.unharmed()
