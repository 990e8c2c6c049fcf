"""Checks of requests about plans."""

from __future__ import annotations

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import InvalidArgument, MessageTooLarge, Unimplemented
from archon_services.orchestrator.api import validation
from archon_services.orchestrator.api.validation import check_edit, check_submit, strategy_of


def request(strategy: int = 0, **fields: object) -> pb.SubmitRunRequest:
    goal = [common_pb2.Part(text="x")]
    return pb.SubmitRunRequest(goal=goal, strategy=strategy, **fields)  # type: ignore[arg-type]


def test_the_strategy_of_a_submit() -> None:
    assert strategy_of(request()) == "pipeline"
    assert strategy_of(request(roles=["a"])) == "agent"
    assert strategy_of(request(run_pb2.STRATEGY_PIPELINE, roles=["a"])) == "pipeline"
    assert strategy_of(request(run_pb2.STRATEGY_PLAN, roles=["a"])) == "plan"


def test_only_a_plan_is_checked() -> None:
    check_submit(request(run_pb2.STRATEGY_PLAN, check_alignment=True))
    with pytest.raises(InvalidArgument, match="check_alignment"):
        check_submit(request(run_pb2.STRATEGY_PIPELINE, check_alignment=True))


def test_only_a_plan_has_a_planner() -> None:
    check_submit(request(run_pb2.STRATEGY_PLAN, planner="thinker"))
    with pytest.raises(InvalidArgument, match="planner"):
        check_submit(request(run_pb2.STRATEGY_AGENT, planner="thinker", roles=["a"]))


@pytest.mark.parametrize(
    "metadata",
    [
        {str(number): "" for number in range(validation.MAX_METADATA + 1)},
        {"key": "x" * validation.MAX_METADATA_LENGTH},
    ],
)
def test_the_metadata_of_a_run_are_bounded(metadata: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="metadata"):
        check_submit(request(metadata=metadata))


def test_as_much_metadata_as_is_allowed_is_accepted() -> None:
    room = "x" * (validation.MAX_METADATA_LENGTH - 2)
    check_submit(request(metadata={f"{number:02}": room for number in range(validation.MAX_METADATA)}))


def test_an_unknown_strategy_is_not_served() -> None:
    with pytest.raises(Unimplemented, match="99"):
        check_submit(request(99))


def test_an_edited_plan_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_PLAN_BYTES", 100)
    check_edit(pb.EditPlanRequest(plan_json="x" * 80))
    with pytest.raises(MessageTooLarge):
        check_edit(pb.EditPlanRequest(plan_json="x" * 120))
