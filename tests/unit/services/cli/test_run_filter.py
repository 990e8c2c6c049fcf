"""The filter of `archon runs`."""

from __future__ import annotations

import time

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.run_filter import RunFilter, StateName


def since(text: str) -> float:
    return RunFilter.of(limit=20, session="", states=(), since=text, search="").since


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1_800), ("2h", 7_200), ("7d", 604_800)])
def test_since_takes_an_age(text: str, seconds: int) -> None:
    assert since(text) == pytest.approx(time.time() - seconds, abs=5)


def test_since_takes_a_local_time() -> None:
    assert since("2026-01-31T12:00") == time.mktime((2026, 1, 31, 12, 0, 0, 0, 0, -1))


@pytest.mark.parametrize("text", ["yesterday", "5", "5w", "-3h", "2026-13-01", "9" * 40 + "d"])
def test_since_refuses_anything_else_with_an_example(text: str) -> None:
    with pytest.raises(CliError, match="such as 30m, 2h or 7d") as raised:
        since(text)
    assert raised.value.code == USAGE


def test_a_paused_run_is_in_the_state_paused_and_in_no_other() -> None:
    run = run_pb2.Run(state=common_pb2.TASK_STATE_WORKING, paused=True)
    paused, working = (RunFilter(1, "", [state], 0.0, "") for state in (StateName.PAUSED, StateName.WORKING))
    assert (paused.admits(run), working.admits(run)) == (True, False)
