"""Hooks and deliveries as text: the states of runs, and 80 columns."""

from __future__ import annotations

import io
import re
import sys

import pytest

from archon.api.common.v1 import failure_pb2
from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.types import Hook, HookDelivery
from archon_services.cli.render.hook_text import delivery_values, print_hook

RUN = "01a222423f9c00004dd3c7d5e8a91dbe"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def delivery(state: pb.DeliveryState.ValueType, run_id: str = "", event: str = "", reason: str = "") -> HookDelivery:
    made = pb.HookDelivery(delivery_id="d", state=state, run_id=run_id, event=event)
    made.receive_time.seconds = 1_800_000_000
    if reason:
        made.failure.CopyFrom(failure_pb2.Failure(message=reason))
    return HookDelivery(made)


DELIVERIES = (
    delivery(pb.DELIVERY_STATE_ACCEPTED, RUN, "pull_request.opened"),
    delivery(pb.DELIVERY_STATE_ACCEPTED, RUN[::-1], "push"),
    delivery(pb.DELIVERY_STATE_IGNORED, event="issues.opened"),
    delivery(pb.DELIVERY_STATE_REFUSED, event="push", reason="the templates of the hook cannot be filled: no x"),
    delivery(pb.DELIVERY_STATE_ACCEPTED, "unknown"),
)
STATES = {RUN: "completed", RUN[::-1]: "removed"}


def test_a_delivery_shows_the_state_of_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    print_hook(Hook(pb.Hook(name="h", path="/hooks/h")), "", DELIVERIES, STATES)
    rows = [line[18:].split(maxsplit=2) for line in capsys.readouterr().out.splitlines()[-5:]]
    assert rows == [
        ["completed", RUN, "pull_request.opened"],
        ["removed", RUN[::-1], "push"],
        ["ignored", "-", "issues.opened"],
        ["refused", "-", "push: the templates of the hook cannot be filled: no x"],
        ["accepted", "unknown", "-"],
    ]
    assert delivery_values(DELIVERIES[0], STATES)["run_state"] == "completed"
    assert delivery_values(DELIVERIES[2], STATES)["run_state"] == ""


def test_a_terminal_of_80_columns_shows_whole_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "80")
    print_hook(Hook(pb.Hook(name="h", path="/hooks/h")), "", DELIVERIES, STATES)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(RUN in line for line in lines) == 1 and any("cannot be" in line for line in lines)
