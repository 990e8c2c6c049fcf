"""The audit log of an orchestrator, and the histories of its runs: who did what on whose behalf, and that it verifies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from archon import context
from archon.agent import AgentServer, TaskContext
from archon.audit_client import AuditClient
from archon.history import AuditEntry, AuditKey, PublicKeys, RunReport, SealReason, verify_log, verify_run
from archon.principal import Kind, Principal
from archon_services.testing.in_process import InProcessMesh
from tests.fixtures.mesh import Mesh
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually


def write_key(folder: Path) -> AuditKey:
    key = AuditKey.generate()
    file = folder / "audit-key.pem"
    file.touch(0o600)
    file.write_bytes(key.pem)
    return key


@dataclass
class Sealing:
    """A mesh that seals, whose calls need tokens. This process calls as the service `of-tests`."""

    mesh: InProcessMesh
    keys: PublicKeys
    tokens: TestKeys


@pytest.fixture
async def sealing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sealing]:
    keys = TestKeys(tmp_path)
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    key = write_key(tmp_path)
    async with InProcessMesh(tmp_path, audit_key=str(tmp_path / "audit-key.pem")) as mesh:
        yield Sealing(mesh, PublicKeys.of(key), keys)


async def verified(client: AuditClient, run_id: str, keys: PublicKeys) -> RunReport:
    history = await client.history(run_id)
    return verify_run(run_id, history.steps, keys, last_seq=history.last_seq, ended=history.ended)


async def entries(client: AuditClient, run_id: str) -> list[AuditEntry]:
    return list(reversed(await client.entries(run_id=run_id)))


async def test_each_command_has_one_entry_with_sub_and_act(sealing: Sealing) -> None:
    mesh, keys = sealing.mesh, sealing.keys
    gate = asyncio.Event()

    async def work(task: TaskContext) -> str:
        await gate.wait()
        return "done"

    async with (
        AgentServer("worker", handler=work, settings=mesh.agent_settings()),
        AuditClient(mesh.orchestrator.address) as audit,
    ):
        with context.serving(context.CallContext(identity="alice")):
            handle = await mesh.client.submit("a secret goal", roles=["worker"])
        with context.serving(context.CallContext(identity="bob")):
            await mesh.client.pause(handle.run_id)
            await mesh.client.resume(handle.run_id)
            await mesh.client.cancel(handle.run_id, "enough")
            await mesh.client.cancel(handle.run_id, "again")
        await handle.result(10)
        found = await entries(audit, handle.run_id)
        assert [(entry.identity, entry.actors, entry.action) for entry in found] == [
            ("alice", ("service:of-tests",), "run.submit"),
            ("bob", ("service:of-tests",), "run.pause"),
            ("bob", ("service:of-tests",), "run.resume"),
            ("bob", ("service:of-tests",), "run.cancel"),
        ]
        assert found[-1].details == {"reason": "enough"}
        assert not any(b"secret" in entry.encode() for entry in found)
        assert (await audit.entries(run_id=handle.run_id, identity="bob", limit=1))[0].action == "run.cancel"
        run = await mesh.client.get(handle.run_id)
        assert (run.identity, run.actor) == ("alice", "service:of-tests")
        report = await verified(audit, handle.run_id, keys)
        assert report.complete, report.fault
        gate.set()


async def test_an_auditor_of_another_tenant_sees_digests_alone(sealing: Sealing) -> None:
    mesh, keys = sealing.mesh, sealing.keys
    async with AgentServer("worker", handler=lambda task: "done", settings=mesh.agent_settings()):
        handle = await mesh.client.submit("x", roles=["worker"], wait=10)
    auditor = sealing.tokens.credentials(Principal(Kind.AUDITOR, "eve", tenant="other"))
    async with (
        AuditClient(mesh.orchestrator.address, credentials=auditor) as audit,
        AuditClient(mesh.orchestrator.address) as admin,
    ):
        assert await audit.entries() == []

        async def sealed() -> bool:
            return [link async for link in admin.links()][-1].number >= 2

        await eventually(sealed)
        links = [link async for link in audit.links()]
        assert links and not any(link.data for link in links)
        (report,) = verify_log({links[0].chain: links}, keys)
        assert (report.fault, report.sealed) == (None, report.last)
        assert any([handle.run_id.encode() in link.data async for link in admin.links()])


async def test_a_run_taken_over_is_sealed_by_the_claim(tmp_path: Path) -> None:
    key = write_key(tmp_path)
    async with InProcessMesh(tmp_path, audit_key=str(tmp_path / "audit-key.pem")) as mesh:
        gate = asyncio.Event()

        async def work(task: TaskContext) -> str:
            await gate.wait()
            return "done"

        async with AgentServer("worker", handler=work, settings=mesh.agent_settings()):
            handle = await mesh.client.submit("x", roles=["worker"])
            await mesh.orchestrator.kill()
            await mesh.orchestrator.start()
            gate.set()
            await handle.result(20)
        async with AuditClient(mesh.orchestrator.address) as audit:
            history = await audit.history(handle.run_id)
            report = verify_run(handle.run_id, history.steps, PublicKeys.of(key), last_seq=history.last_seq, ended=True)
            assert report.complete, report.fault
            assert [step.seal[17] for step in history.steps if step.seal] == [SealReason.CLAIM, SealReason.END]

            async def chains() -> bool:
                links = [link async for link in audit.links()]
                names = {link.chain for link in links}
                reports = verify_log({name: [link for link in links if link.chain == name] for name in names})
                assert not any(report.fault for report in reports)
                return len(names) == 2

            await eventually(chains)


async def test_a_mesh_without_a_key_has_links_and_no_seals(mesh: Mesh) -> None:
    agent = await mesh.agent("unsealed")
    run_id = (await mesh.client.submit("x", roles=["unsealed"], wait=10)).run_id
    assert agent.instance_id
    async with AuditClient(mesh.orchestrator.address) as audit:
        report = await verified(audit, run_id, PublicKeys.of(AuditKey.generate()))
        assert (report.fault, report.seal, report.proven) == ("", None, False)
        assert report.steps > 1
        assert [entry.identity for entry in await entries(audit, run_id)] == ["anonymous"]
