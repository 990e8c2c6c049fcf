"""Adoptions and replies for instances that are not registered yet."""

from __future__ import annotations

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon_services.orchestrator.ports import AttemptStatus
from archon_services.orchestrator.sessions.pending_adoptions import Adoption, PendingAdoptions


def ref(task_id: str, run_id: str = "r") -> common_pb2.TaskRef:
    return common_pb2.TaskRef(task_id=task_id, run_id=run_id, attempt=1, epoch=2)


def answer(name: str) -> session_pb2.OrchestratorFrame:
    return session_pb2.OrchestratorFrame(delegate_result=session_pb2.DelegateResult(delegation_id=name))


def named(adoption: Adoption) -> list[str]:
    return [frame.delegate_result.delegation_id for frame in adoption.frames]


def test_replies_wait_with_the_adoption_of_their_attempt() -> None:
    pending = PendingAdoptions()
    pending.add("i", Adoption(ref("r.1"), "a", AttemptStatus(1.0)))
    for name in ("d1", "d2"):
        pending.tell("i", ref("r.1"), answer(name))
    pending.tell("i", ref("r.2"), answer("of an attempt that is not pending"))
    pending.tell("j", ref("r.1"), answer("of another instance"))
    (adoption,) = pending.take("i")
    assert named(adoption) == ["d1", "d2"]
    assert list(pending.take("i")) == []


def test_cancelled_and_released_adoptions_are_removed() -> None:
    pending = PendingAdoptions()
    for task_id, run_id in (("r.1", "r"), ("r.2", "r"), ("s.1", "s")):
        pending.add("i", Adoption(ref(task_id, run_id), "a", AttemptStatus(1.0)))
    pending.cancel("i", ref("r.1"))
    assert [(instance_id, released.task_id) for instance_id, released in pending.release_run("r")] == [("i", "r.2")]
    assert [adoption.ref.task_id for adoption in pending.take("i")] == ["s.1"]
