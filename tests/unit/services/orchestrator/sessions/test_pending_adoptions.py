"""What is to be said to instances that aren't known yet."""

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


def test_what_an_attempt_is_told_before_its_instance_is_known_waits_with_it() -> None:
    unclaimed = PendingAdoptions()
    unclaimed.add("i", Adoption(ref("r.1"), "a", AttemptStatus(1.0)))
    for name in ("d1", "d2"):
        unclaimed.tell("i", ref("r.1"), answer(name))
    unclaimed.tell("i", ref("r.2"), answer("of an attempt that isn't asked for"))
    unclaimed.tell("j", ref("r.1"), answer("of another instance"))
    (adoption,) = unclaimed.take("i")
    assert named(adoption) == ["d1", "d2"]
    assert list(unclaimed.take("i")) == []


def test_what_is_called_off_or_let_go_is_asked_for_no_more() -> None:
    unclaimed = PendingAdoptions()
    for task_id, run_id in (("r.1", "r"), ("r.2", "r"), ("s.1", "s")):
        unclaimed.add("i", Adoption(ref(task_id, run_id), "a", AttemptStatus(1.0)))
    unclaimed.call_off("i", ref("r.1"))
    assert [(instance_id, one.task_id) for instance_id, one in unclaimed.release_run("r")] == [("i", "r.2")]
    assert [adoption.ref.task_id for adoption in unclaimed.take("i")] == ["s.1"]
