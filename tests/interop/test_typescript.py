"""A client in TypeScript, over generated stubs alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from archon.api.common.v1 import common_pb2
from archon.client import Client
from archon_services.testing.mesh import LocalMesh
from tests.fixtures.require import find
from tests.interop import builds

pytestmark = pytest.mark.timeout(300)  # the first may have to build the client

PATIENCE = 60.0


@pytest.fixture(scope="module")
def program() -> Path:
    return builds.TYPESCRIPT.require()


@pytest.fixture(scope="module")
async def seen(program: Path, mesh: LocalMesh) -> dict[str, Any]:
    """What it says of one run that it watched, and of calls that failed."""
    node = find("node")
    assert node is not None
    child = await asyncio.create_subprocess_exec(
        node, program, mesh.orchestrator, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await child.communicate()
    assert child.returncode == 0, err.decode()
    said: dict[str, Any] = json.loads(out)
    return said


async def test_a_resumed_watch_has_every_durable_event_once_in_order(seen: dict[str, Any], client: Client) -> None:
    run = await client.get(seen["run_id"])
    assert (seen["before"]["ended"], seen["after"]["ended"]) == ("CANCELLED", "OK")
    assert len(seen["before"]["seqs"]) == 3 and seen["after"]["seqs"]
    assert seen["before"]["seqs"] + seen["after"]["seqs"] == list(range(1, run.last_seq + 1))
    durable = [event async for event in client.watch(seen["run_id"], durable_only=True)]
    assert seen["kinds"] == [_camel(event.WhichOneof("event") or "") for event in durable]


def test_the_run_ends_with_an_answer_of_each_role(seen: dict[str, Any]) -> None:
    assert seen["state"] == common_pb2.TASK_STATE_COMPLETED
    assert set(seen["answers"]) == {"requirements", "designer", "implementer"}
    assert "overdue books" in seen["answers"]["requirements"]
    assert seen["times_are_dates"]


def test_the_same_request_id_again_is_the_same_run(seen: dict[str, Any]) -> None:
    assert seen["same_run_again"]


def test_an_error_is_typed_by_its_details(seen: dict[str, Any]) -> None:
    error = seen["unknown_role"]
    assert (error["code"], error["reason"], error["domain"]) == ("NOT_FOUND", "UNKNOWN_ROLE", "archon.dev")
    assert error["known"], "the reason is one of the enum's"
    assert "nobody-serves-this" in error["message"]
    assert seen["empty_goal"]["reason"] == "EMPTY_GOAL"


def _camel(name: str) -> str:
    """As TypeScript calls it."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
