"""Progress and lineage of runs in another mesh, without a mesh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DelegationLoop, DelegationTooDeep, InvalidArgument
from archon.federation.content import failure_of, goal_of
from archon.federation.lineage import MAX_KEYS, MESHES_KEY, crossing, lineage_of
from archon.federation.narration import BURST, Narrator
from archon.federation.other_mesh import MAX_EARLIER, OtherMesh
from archon.federation.submission import MAX_REQUEST_ID, request_id_of
from archon.run_view import RunView
from archon.types import Run, RunEvent
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.waiting import run_ready_tasks

WORKING = common_pb2.TASK_STATE_WORKING


def task_of(sent: list[session_pb2.AgentFrame] | None = None, **fields: object) -> TaskContext:
    """Returns an attempt at a task with these fields."""
    assigned = agent_pb2.AssignTask(**fields)  # type: ignore[arg-type]
    ref = common_pb2.TaskRef(task_id="r.1", run_id="r", attempt=1)
    return TaskContext.from_proto(ref, assigned, FakeLink([] if sent is None else sent), role="research")


def events(count: int) -> Iterator[RunEvent]:
    """Yields the dispatches of a run, and then the ends of the same attempts."""
    for kind in ("dispatched", "result"):
        for number in range(count):
            event = run_pb2.RunEvent(run_id="c", task=common_pb2.TaskRef(task_id=f"c.{number}", attempt=1))
            if kind == "dispatched":
                event.dispatched.role = "worker"
            else:
                event.result.role, event.result.state = "worker", common_pb2.TASK_STATE_COMPLETED
            yield RunEvent(event)


async def test_progress_of_a_busy_run_is_bounded() -> None:
    sent: list[session_pb2.AgentFrame] = []
    narrator, view = Narrator(task_of(sent), "far", "c"), RunView()
    for event in events(200):
        view.apply(event)
        narrator.apply(event, view)
    shown = [frame.progress.tool_event for frame in sent]
    calls = {each.call_id for each in shown if each.arguments_json}
    ends = {each.call_id for each in shown if each.result_json}
    assert BURST <= len(calls) < 60
    assert ends == calls, "no call that was shown stays open"
    assert shown[-1].result_json == '"run c of the mesh far: worker completed"'


@pytest.mark.parametrize(
    ("above", "other", "error"),
    [
        ("", "b", None),
        ("b", "", None),
        ("a", "", DelegationLoop),
        ("b", "b", DelegationLoop),
        ("", "a", DelegationLoop),
    ],
)
def test_a_lineage_refuses_meshes_that_wait(above: str, other: str, error: type[Exception] | None) -> None:
    task = task_of(metadata={MESHES_KEY: above})
    if error is None:
        assert lineage_of(task, "a", other)[MESHES_KEY] == ",".join(filter(None, (above, "a")))
        return
    with pytest.raises(error, match="delegation loop"):
        lineage_of(task, "a", other)


def test_a_lineage_is_bounded() -> None:
    with pytest.raises(DelegationTooDeep):
        lineage_of(task_of(metadata={MESHES_KEY: "b,c,d,e,f,g,h,i"}), "a", "")


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("*",), {"ticket", "team.name"}),
        (("team.*",), {"team.name"}),
        (("*", "dev.archon/user"), {"ticket", "team.name", "dev.archon/user"}),
        ((), set()),
    ],
)
def test_keys_of_archon_itself_cross_only_by_name(patterns: tuple[str, ...], expected: set[str]) -> None:
    metadata = {"ticket": "1", "team.name": "2", "dev.archon/user": "3", "dev.archon/workflow": "4"}
    assert set(crossing(metadata, patterns)) == expected


def test_too_many_keys_are_refused_not_dropped() -> None:
    metadata: Mapping[str, str] = {f"k{number}": "" for number in range(MAX_KEYS + 1)}
    with pytest.raises(InvalidArgument, match="61 keys"):
        crossing(metadata, ("*",))


def test_the_request_id_is_that_of_the_task_and_of_a_refusal() -> None:
    first, again = request_id_of(task_of(idempotency_key="k"), "a"), request_id_of(task_of(idempotency_key="k"), "a")
    refused = request_id_of(task_of(idempotency_key="k", refusal="no JSON"), "a")
    assert first == again == "mesh:a/k"
    assert refused.startswith("mesh:a/k/") and refused != first
    assert request_id_of(task_of(), "a") == "mesh:a/r/r.1"
    assert len(request_id_of(task_of(idempotency_key="k" * 300), "a")) <= MAX_REQUEST_ID


def test_the_goal_says_what_is_expected() -> None:
    task = task_of(input=[common_pb2.Part(text="count")], expected_output="a number", refusal="it was a word")
    expected = ["count", "Expected output: a number", "An earlier answer was refused: it was a word"]
    assert [part.text for part in goal_of(task)] == expected


def test_a_run_without_a_failure_of_its_own_fails_typed() -> None:
    run = Run(run_pb2.Run(run_id="c", state=common_pb2.TASK_STATE_CANCELED))
    error = failure_of(run, "far")
    assert (error.code, str(error)) == ("CANCELLED", "run c of the mesh far was cancelled: it was cancelled there")


async def test_connections_to_earlier_addresses_are_bounded() -> None:
    number = 0
    mesh = OtherMesh("far", lambda: f"127.0.0.1:{number + 1}")
    for number in range(2 * MAX_EARLIER):  # noqa: B007 - the address reads it
        assert mesh.client() is mesh.client()
        await run_ready_tasks()
    assert len(mesh._earlier) <= MAX_EARLIER + 1
    await mesh.close()
    assert not mesh._earlier
