"""A short fuzz of strangers and members of a mesh that needs tokens; `make fuzz` sends a million inputs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from archon.agent import AgentServer
from archon.principal import Kind, Principal
from archon.security.tokens import Audience
from archon_services.testing.in_process import InProcessMesh
from tests.adversary.fuzz import Fuzz, Known, Presented
from tests.adversary.fuzz_bytes import Bytes
from tests.adversary.fuzz_tokens import Changed, Valid, stranger
from tests.fixtures.tokens import TestKeys

FEW = [pytest.param(150, id="few"), pytest.param(600, id="many", marks=pytest.mark.search)]


@dataclass
class Guarded:
    """A mesh that needs tokens: its addresses, and the tokens of each kind for each service."""

    targets: dict[str, str]
    tokens: dict[tuple[Kind, str], str]

    def of(self, kind: Kind) -> dict[str, str]:
        return {service: token for (each, service), token in self.tokens.items() if each is kind}


@pytest.fixture
async def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    keys = TestKeys(tmp_path)
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    async with (
        InProcessMesh(tmp_path) as mesh,
        AgentServer("first", handler=lambda task: "done", settings=mesh.agent_settings()) as agent,
    ):
        targets = {
            "registry": mesh.registry.address,
            "memory": mesh.memory.address,
            "orchestrator": mesh.orchestrator.address,
            "agent": agent.address,
        }

        def token(kind: Kind, service: str) -> str:
            audience: Audience = "agents" if service == "agent" else "services"
            return keys.token(Principal(kind, "first", roles=frozenset({"first"})), audience)

        yield Guarded(targets, {(kind, service): token(kind, service) for kind in Kind for service in targets})


async def fuzz(guarded: Guarded, presented: Presented, inputs: int) -> Fuzz:
    sender = Fuzz(guarded.targets, Known(["first"]), presented)
    await sender.run(range(inputs))
    await sender.close()
    return sender


@pytest.mark.parametrize("inputs", FEW)
async def test_no_changed_token_or_metadata_lets_anybody_in(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, inputs: int
) -> None:
    for presented in (stranger, Changed(guarded.of(Kind.ADMIN))):
        sender = await fuzz(guarded, presented, inputs)
        assert sender.findings == []
        assert sender.codes["UNAUTHENTICATED"] > 0.9 * inputs
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("inputs", FEW)
async def test_inputs_of_members_of_each_kind_end_typed(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, inputs: int
) -> None:
    sender = await fuzz(guarded, Valid(guarded.tokens), inputs)
    assert sender.findings == []
    assert sender.unauthenticated <= {"Deliver"}  # of a webhook whose signature does not match
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("inputs", FEW)
async def test_broken_frames_close_connections_and_log_no_stack(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, inputs: int
) -> None:
    caplog.set_level(logging.WARNING)
    sender = Bytes(list(guarded.targets.values()))
    await sender.run(range(inputs))
    assert sender.findings == []
    assert sender.ends["closed by the server"] > inputs / 3
    assert "Traceback" not in caplog.text
    assert (await fuzz(guarded, Valid(guarded.tokens), 30)).codes["UNAVAILABLE"] == 0
