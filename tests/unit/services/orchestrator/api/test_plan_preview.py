"""Plans without runs: which instance is asked, and how many plans are made at a time."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from archon.errors import ResourceExhausted, Unavailable
from archon.registry import Registration
from archon_mesh.engine.types import PLAN, PlanTarget, Submission
from archon_services.orchestrator.api import plan_preview
from archon_services.orchestrator.api.plan_preview import PlanPreview

SUBMISSION = Submission(
    "r", "default", "q", "", PLAN, ("planner",), (), 60.0, None, targets=(PlanTarget("cook", "Cooks."),)
)


def preview(*instances: Registration) -> PlanPreview:
    known: Mapping[str, Registration] = {instance.instance_id: instance for instance in instances}
    return PlanPreview(lambda: known, lambda: 1_000.0, random.Random(1))


async def test_an_instance_that_cannot_be_reached_is_not_asked() -> None:
    nowhere = Registration("planner")
    with pytest.raises(Unavailable, match="no instance of 'planner' can be reached") as caught:
        await preview(nowhere, Registration("cook", address="127.0.0.1:1")).plan(SUBMISSION, "o")
    assert caught.value.metadata == {"role": "planner"}


async def test_instances_that_are_gone_are_asked_in_turn() -> None:
    gone = [Registration("planner", address=f"127.0.0.1:{port}") for port in (1, 2)]
    with pytest.raises(Unavailable, match="no instance of 'planner' answers"):
        await preview(*gone).plan(SUBMISSION, "o")


async def test_plans_that_are_made_at_a_time_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_preview, "MAX_PREVIEWS", 0)
    with pytest.raises(ResourceExhausted) as caught:
        await preview().plan(SUBMISSION, "o")
    assert caught.value.retry_delay
