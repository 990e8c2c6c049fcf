"""Options of edits of hooks and schedules."""

from __future__ import annotations

import pytest

from archon.submission import submit_request
from archon.types import Budget
from archon_mesh.workflows.role import MEDIA_TYPE
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.trigger_options import check_goal, run_changes


def test_a_workflow_keeps_its_goal() -> None:
    check_goal(submit_request("look"))
    run = submit_request("trip")
    run.goal.add(data_json="{}", media_type=MEDIA_TYPE)
    with pytest.raises(CliError, match="it runs a workflow") as refused:
        check_goal(run)
    assert refused.value.code == USAGE


def test_options_that_are_not_given_change_nothing() -> None:
    assert run_changes(role=None, session=None, timeout=None, tokens=None, cost=None) == {}
    given = run_changes(role=["a"], session="", timeout=2.0, tokens=5, cost=None)
    assert given == {"roles": ["a"], "session_id": "", "timeout": 2.0, "budget": Budget(max_tokens=5)}
