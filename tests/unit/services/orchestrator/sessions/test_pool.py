"""The pool's indexes follow its sessions: by role for placement, by run for releases. No stream is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.frames import FEATURES
from archon.registry import Capability, Registration
from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.sessions import Session, SessionPool
from tests.unit.services.orchestrator.sessions.inbox import Inbox

TASK = agent_pb2.AssignTask(input=[common_pb2.Part(text="x")])


def ref(run_id: str, number: int = 1) -> common_pb2.TaskRef:
    return common_pb2.TaskRef(task_id=f"{run_id}.{number}", run_id=run_id, attempt=1, epoch=1)


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SessionPool]:
    monkeypatch.setattr(Session, "start", lambda session: None)
    pool = SessionPool(orchestrator_id="o", inbox=Inbox())
    yield pool
    await pool.close()


def connect(pool: SessionPool, instance_id: str, slots: int = 1) -> Session:
    session = pool._sessions[instance_id]
    session._ready(session_pb2.Ready(features=FEATURES, max_tasks=slots))
    return session


async def test_a_slot_is_reserved_at_the_least_loaded_instance(pool: SessionPool) -> None:
    pool.update([Registration("a", instance_id="a1"), Registration("a", instance_id="a2")])
    assert pool.reserve(Requirement("a")) is None, "no instance is connected"
    connect(pool, "a1", 4)
    connect(pool, "a2", 2)
    slots = [pool.reserve(Requirement("a")) for _ in range(4)]
    assert [slot and slot.instance_id for slot in slots] == ["a1", "a2", "a1", "a1"]
    assert pool.reserve(Requirement("b")) is None


async def test_all_sessions_dial_in_the_same_queues(pool: SessionPool) -> None:
    """Each in queues of its own would dial at once."""
    pool.update([Registration("a", instance_id="a1"), Registration("b", instance_id="b1")])
    assert [session._dials for session in pool._sessions.values()] == [pool._dials] * 2


async def test_a_removed_instance_is_neither_placed_nor_resolved(pool: SessionPool) -> None:
    instance = Registration("a", instance_id="a1", capabilities=[Capability("x")], stateful=True)
    pool.update([instance])
    assert (pool.stateful("a"), pool._roles.resolve("", "", "x")) == (True, ("a",))
    pool.update([], ["a1"])
    assert (pool.stateful("a"), pool._roles.resolve("", "", "x")) == (False, ())
    assert pool.reserve(Requirement("a")) is None
    pool.update([instance])
    connect(pool, "a1")
    assert pool.reserve(Requirement("a", "x")) == ("a1", None)


async def test_a_new_registration_of_an_instance_counts_at_once(pool: SessionPool) -> None:
    pool.update([Registration("a", "1.0", instance_id="a1")])
    connect(pool, "a1", 4)
    assert pool.reserve(Requirement("a", version="2.*")) is None
    pool.update([Registration("a", "2.0", instance_id="a1")])
    assert pool.reserve(Requirement("a", version="2.*")) == ("a1", None)


async def test_a_new_version_wakes_a_task_that_waits_for_it(pool: SessionPool) -> None:
    pool.update([Registration("a", "1.0", instance_id="a1")])
    connect(pool, "a1")
    woken: list[str] = []
    pool.when_free(Requirement("a", version="2.*"), "r", lambda: woken.append("a"))
    pool.update([Registration("a", "1.0", instance_id="a1")])
    assert woken == []
    pool.update([Registration("a", "2.0", instance_id="a1")])
    assert woken == ["a"]


async def test_a_closed_pool_places_nothing(pool: SessionPool) -> None:
    pool.update([Registration("a", instance_id="a1")])
    connect(pool, "a1")
    await pool.close()
    assert (pool.reserve(Requirement("a")), pool.stateful("a")) == (None, False)


async def test_a_free_slot_wakes_a_task_that_waits_for_its_role(pool: SessionPool) -> None:
    pool.update([Registration("a", instance_id="a1"), Registration("b", instance_id="b1")])
    woken: list[str] = []
    for role in ("a", "b"):
        pool.when_free(Requirement(role), "r", lambda role=role: woken.append(role))  # type: ignore[misc]
    connect(pool, "b1")
    assert woken == ["b"]
    connect(pool, "a1")
    assert woken == ["b", "a"]


async def test_a_released_run_is_removed_from_its_holders_only(
    pool: SessionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.update([Registration("a", instance_id=name) for name in ("a1", "a2", "a3")])
    sessions = {name: connect(pool, name, 4) for name in ("a1", "a2", "a3")}
    for instance_id, attempt in (("a1", ref("r")), ("a2", ref("r", 2)), ("a2", ref("s")), ("a3", ref("s", 2))):
        pool.assign(instance_id, attempt, "a", TASK)
    released: list[str] = []
    real = Session.release_run

    def release_run(session: Session, run_id: str, *, over: bool = False) -> None:
        released.append(session.instance_id)
        real(session, run_id, over=over)

    monkeypatch.setattr(Session, "release_run", release_run)
    pool.release_run("r")
    assert released == ["a1", "a2"]
    assert [session.idle for session in sessions.values()] == [True, False, False]
    pool.release_run("r")
    assert released == ["a1", "a2"], "no session holds the run any more"
    pool.release_run("s", over=True)
    assert released[2:] == ["a2", "a3"]
    assert [len(session.stale) for session in sessions.values()] == [0, 1, 1]
    assert pool._holders == {}


async def test_a_run_is_not_held_after_its_results_are_durable(pool: SessionPool) -> None:
    pool.update([Registration("a", instance_id="a1")])
    session = connect(pool, "a1")
    pool.assign("a1", ref("r"), "a", TASK)
    result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)
    session._frame(session_pb2.AgentFrame(task=ref("r"), sequence=1, result=result), 100)
    assert list(pool._holders) == ["r"], "the event of the result is not durable yet"
    assert isinstance(pool._inbox, Inbox)
    receipt = pool._inbox.deliveries[-1].receipt
    assert receipt is not None
    receipt.accept(1)
    assert pool._holders == {}


async def test_a_removed_session_holds_no_runs(pool: SessionPool) -> None:
    instance = Registration("a", instance_id="a1")
    pool.update([instance])
    former = connect(pool, "a1", 4)
    pool.assign("a1", ref("r"), "a", TASK)
    pool.assign("a1", ref("s"), "a", TASK)
    result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)
    former._frame(session_pb2.AgentFrame(task=ref("s"), sequence=1, result=result), 100)
    former.connected = False
    pool.update([], ["a1"])
    assert (pool._sessions, pool._holders) == ({}, {})
    former._frame(session_pb2.AgentFrame(task=ref("t"), sequence=1, result=result), 100)
    assert pool._holders == {}, "frames to a session that closes hold no run"
    pool.update([instance])
    connect(pool, "a1", 4)
    pool.assign("a1", ref("s", 2), "a", TASK)
    assert isinstance(pool._inbox, Inbox)
    receipts = [delivery.receipt for delivery in pool._inbox.deliveries if delivery.receipt is not None]
    for receipt in receipts:
        receipt.discard("ABORTED")
    assert list(pool._holders) == ["s"], "only the new session holds a run"
