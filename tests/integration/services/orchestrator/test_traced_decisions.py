"""The spans of runs that choose among results, derived from their journals."""

from __future__ import annotations

from archon.agent import TaskContext
from archon.client import RunHandle
from archon.registry import Profile
from archon.telemetry import names
from archon.telemetry.span_data import SpanData
from archon.telemetry.trace_parent import TraceParent
from archon_mesh.engine.plan import SubTask
from archon_mesh.planning import auction, committee, redundant
from archon_services.orchestrator.convert import event_from_proto, event_time
from archon_services.orchestrator.observability.run_log import RunLog
from archon_services.orchestrator.observability.run_spans import spans_of
from archon_services.orchestrator.observability.span_ids import run_span_id, trace_id
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.test_auctions import Coder, executed, unique
from tests.integration.services.orchestrator.troupe import Troupe, durable


async def spans_in(handle: RunHandle) -> tuple[dict[str, SpanData], SpanData, SpanData]:
    """Returns the attempts by their steps, the decision, and the run."""
    log = RunLog()
    for event in await durable(handle):
        if event.HasField("submitted"):
            event.submitted.traced = True
            event.submitted.trace.traceparent = str(
                TraceParent(trace_id(handle.run_id), run_span_id(handle.run_id), sampled=True)
            )
        log.add(event_from_proto(event), event_time(event))
    *spans, run = spans_of(log)
    (decision,) = [span for span in spans if span.name.startswith("decide")]
    attempts = {str(span.attributes[names.STEP_ID]): span for span in spans if span is not decision}
    assert {span.parent_id for span in spans} == {run.span_id}, "all are siblings below the run"
    return attempts, decision, run


def chosen(decision: SpanData) -> list[str]:
    return [
        f"{link.context.span_id:016x}"
        for link in decision.links
        if link.attributes and link.attributes.get(names.DECISION_CHOSEN)
    ]


async def test_the_members_of_a_committee_are_linked_by_its_decision(mesh: Mesh, troupe: Troupe) -> None:
    roles = [unique("member") for _ in range(3)]
    for number, role in enumerate(roles):

        async def answer(task: TaskContext, text: str = "red" if number else "blue") -> str:
            return text

        await troupe(role, answer)
    steps = committee("Which?", roles=roles)
    attempts, decision, _ = await spans_in(await executed(mesh, steps, *roles))
    assert (decision.name, len(decision.links)) == ("decide vote", 3)
    assert decision.attributes[names.DECISION_WINNER] == "committee-2"
    assert decision.attributes[names.DECISION_CONFLICT]
    assert chosen(decision) == [attempts["committee-2"].span_id]


async def test_the_bids_of_an_auction_are_linked_by_its_award(mesh: Mesh, troupe: Troupe) -> None:
    role = unique("coder")
    for quality in (0.5, 0.9):
        await troupe(role, Coder(f"{quality}").work, profile=Profile(expected_quality=quality))
    steps = auction(SubTask("build", "Build it.", role=role), roles=[role], bidders=2)
    attempts, decision, _ = await spans_in(await executed(mesh, steps, role))
    assert (decision.name, len(decision.links)) == ("decide award", 2)
    winner = str(decision.attributes[names.DECISION_WINNER])
    assert chosen(decision) == [attempts[winner].span_id]
    assert "build" in attempts


async def test_the_copies_of_a_step_are_linked_by_the_first_result(mesh: Mesh, troupe: Troupe) -> None:
    role = unique("coder")
    await troupe(role, Coder("done").work)
    steps = redundant(SubTask("build", "Build it.", role=role), 2)
    attempts, decision, _ = await spans_in(await executed(mesh, steps, role))
    assert decision.name == "decide first"
    assert chosen(decision) == [attempts[str(decision.attributes[names.DECISION_WINNER])].span_id]
