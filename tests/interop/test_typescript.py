"""A client in TypeScript that uses generated stubs only."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from archon.api.common.v1 import common_pb2
from archon.client import Client
from archon_services.testing.mesh import LocalMesh
from tests.fixtures.require import find
from tests.interop import builds

pytestmark = pytest.mark.slow

PATIENCE = 60.0


@pytest.fixture(scope="module")
def program() -> Path:
    return builds.TYPESCRIPT.require()


@pytest.fixture(scope="module")
async def report(program: Path, mesh: LocalMesh) -> dict[str, Any]:
    """The client's report about a run that it watched and about calls that failed."""
    node = find("node")
    assert node is not None
    child = await asyncio.create_subprocess_exec(
        node,
        program,
        mesh.orchestrator,
        env={**os.environ, "ARCHON_TOKEN": mesh.user_token()},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await child.communicate()
    assert child.returncode == 0, err.decode()
    report: dict[str, Any] = json.loads(out)
    return report


async def test_a_resumed_watch_has_every_durable_event_once_in_order(report: dict[str, Any], client: Client) -> None:
    run = await client.get(report["run_id"])
    assert (report["before"]["ended"], report["after"]["ended"]) == ("CANCELLED", "OK")
    assert len(report["before"]["seqs"]) == 3 and report["after"]["seqs"]
    assert report["before"]["seqs"] + report["after"]["seqs"] == list(range(1, run.last_seq + 1))
    durable = [event async for event in client.watch(report["run_id"], durable_only=True)]
    assert report["kinds"] == [_camel(event.type) for event in durable]


def test_the_run_ends_with_an_answer_of_each_role(report: dict[str, Any]) -> None:
    assert report["state"] == common_pb2.TASK_STATE_COMPLETED
    assert set(report["answers"]) == {"requirements", "designer", "implementer"}
    assert "overdue books" in report["answers"]["requirements"]
    assert report["times_are_dates"]


def test_the_same_request_id_again_is_the_same_run(report: dict[str, Any]) -> None:
    assert report["same_run_again"]


def test_an_error_is_typed_by_its_details(report: dict[str, Any]) -> None:
    error = report["unknown_role"]
    assert (error["code"], error["reason"], error["domain"]) == ("NOT_FOUND", "UNKNOWN_ROLE", "archon.dev")
    assert error["known"], "the reason is a value of the enum"
    assert "absent" in error["message"]
    assert report["empty_goal"]["reason"] == "EMPTY_GOAL"


def _camel(name: str) -> str:
    """Returns the name of a field in TypeScript."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
