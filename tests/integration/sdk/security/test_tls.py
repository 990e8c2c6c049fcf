"""Mutual TLS between the members of a mesh, over real connections."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import httpx2
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from archon import status
from archon.agent import AgentServer, TaskContext
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.api.registry.v1 import registry_service_pb2 as registry
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.channel import connect
from archon.client import Client
from archon.errors import (
    ArchonError,
    CertificateRefused,
    FailedPrecondition,
    PermissionDenied,
    TokenInvalid,
    Unavailable,
)
from archon.principal import Kind, Principal
from archon.registry import Registration
from archon.registry.convert import registration_to_proto
from archon.security.authenticator import own_authenticator
from archon.security.certificates import CertificateFolder
from archon.security.credentials import TOKEN_ONLY_KEY
from archon.security.peer import ORCHESTRATOR, REGISTRY, Peer
from archon.security.policy import POLICY
from archon.security.spiffe import SpiffeId
from archon.types import TaskState
from archon_services.local_mesh.authority import Authority
from archon_services.testing.in_process import InProcessMesh
from tests.fixtures.http_gateway import open_gateway, settings_for
from tests.fixtures.ports import free_ports
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually
from tests.integration.sdk.security.test_every_rpc import STREAMS_IN, STREAMS_OUT

MESH: Final = "mesh-of-tests"
MEMBERS: Final = ("orchestrator.service", "registry.service", "memory.service", "worker.agent")


class Encrypted:
    """A mesh whose members have certificates of one authority. In this process all have the same one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority.create(MESH, now=now())
        self.mesh = InProcessMesh(folder)
        self.agent: AgentServer
        self.renew()

    def renew(self) -> None:
        """Replaces the certificate of the members."""
        names = tuple(f"{member}.default.{MESH}" for member in MEMBERS)
        identity = SpiffeId(MESH, "default", Kind.SERVICE, "of-tests")
        self.authority.issue(self.folder / "members", identity, now=now(), names=names)

    def certificate(
        self,
        kind: Kind,
        name: str = "someone",
        *,
        mesh: str = MESH,
        authority: Authority | None = None,
        age: float = 0.0,
    ) -> CertificateFolder:
        """Returns a certificate that was issued `age` days ago for 90 days."""
        issuer = authority or self.authority
        folder = self.folder / f"{kind}-{name}-{mesh}-{issuer.certificate.serial_number}-{age}"
        issuer.issue(folder, SpiffeId(mesh, "default", kind, name), now=now() - datetime.timedelta(days=age))
        return CertificateFolder(folder)

    async def called(
        self, address: str, method: str, certificate: CertificateFolder, expected: str
    ) -> ArchonError | None:
        """Calls a method with an empty request. Returns why it was refused; None if it was let in."""
        own = certificate.read()
        credentials = grpc.ssl_channel_credentials(own.authorities, own.key, own.chain)
        options = [("grpc.ssl_target_name_override", expected)]
        name = method.rpartition("/")[2]
        async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
            try:
                call: Any
                if name in STREAMS_OUT:
                    make: Any = channel.stream_stream if name in STREAMS_IN else channel.unary_stream
                    call = make(method)(iter(()) if name in STREAMS_IN else b"", timeout=1.0)
                    async for _ in call:
                        break
                else:
                    call = channel.unary_unary(method)
                    await call(b"", timeout=1.0)
            except grpc.aio.AioRpcError as raised:
                error = status.from_rpc_error(raised)
                if (
                    isinstance(error, CertificateRefused)
                    or "may not call" in str(error)
                    or "failed to connect" in str(error)
                ):
                    return error
        return None


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@pytest.fixture
async def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Encrypted]:
    encrypted = Encrypted(tmp_path)
    monkeypatch.setenv("ARCHON_TLS", str(tmp_path / "members"))
    async with encrypted.mesh:
        settings = encrypted.mesh.agent_settings()
        async with AgentServer("worker", handler=echo, settings=settings) as encrypted.agent:
            yield encrypted


async def echo(task: TaskContext) -> str:
    return f"echo of {task.text}"


async def test_a_run_passes_all_members(encrypted: Encrypted) -> None:
    run = await (await encrypted.mesh.client.submit("x", roles=["worker"])).result(10)
    assert [answer.text for answer in run.answers] == ["echo of x"]


async def test_every_rpc_is_open_to_the_kinds_of_its_row_alone(encrypted: Encrypted) -> None:
    places = {
        "orchestrator": (encrypted.mesh.orchestrator.address, "orchestrator.service"),
        "registry": (encrypted.mesh.registry.address, "registry.service"),
        "memory": (encrypted.mesh.memory.address, "memory.service"),
        "audit": (encrypted.mesh.orchestrator.address, "orchestrator.service"),
        "agent": (encrypted.agent.address, "worker.agent"),
        "tool": (encrypted.agent.address, "worker.agent"),
    }
    certificates = {kind: encrypted.certificate(kind) for kind in Kind}
    cases = [(method, kind) for method in POLICY for kind in Kind]
    limit = asyncio.Semaphore(16)

    async def case(method: str, kind: Kind) -> ArchonError | None:
        address, member = places["orchestrator" if "AttachService" in method else method.split(".")[2]]
        async with limit:
            return await encrypted.called(address, method, certificates[kind], f"{member}.default.{MESH}")

    outcomes = await asyncio.gather(*(case(method, kind) for method, kind in cases))
    wrong = [
        (method, kind, error)
        for (method, kind), error in zip(cases, outcomes, strict=True)
        if (error is None) != (kind in POLICY[method]) or (error is not None and type(error) is not PermissionDenied)
    ]
    assert wrong == []


@pytest.mark.parametrize("fault", ["plaintext", "no certificate", "another authority", "expired", "another mesh"])
async def test_strangers_are_refused(encrypted: Encrypted, fault: str, tmp_path: Path) -> None:
    address = encrypted.mesh.orchestrator.address
    own = encrypted.certificate(Kind.ADMIN).read()
    options = [("grpc.ssl_target_name_override", f"orchestrator.service.default.{MESH}")]
    if fault == "another authority":
        own = encrypted.certificate(Kind.ADMIN, authority=Authority.create(MESH, now=now())).read()
    elif fault == "expired":
        own = encrypted.certificate(Kind.ADMIN, age=91).read()
    elif fault == "another mesh":  # whose authority this one trusts
        shared = Authority(encrypted.authority.certificate, encrypted.authority.key, "another")
        own = encrypted.certificate(Kind.ADMIN, mesh="another", authority=shared).read()
    authorities = encrypted.certificate(Kind.ADMIN).read().authorities
    if fault == "no certificate":
        credentials = grpc.ssl_channel_credentials(authorities)
    else:
        credentials = grpc.ssl_channel_credentials(authorities, own.key, own.chain)
    channel = (
        grpc.aio.insecure_channel(address)
        if fault == "plaintext"
        else grpc.aio.secure_channel(address, credentials, options=options)
    )
    async with channel:
        stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ListRuns(pb.ListRunsRequest(), timeout=5)
    error = status.from_rpc_error(caught.value)
    if fault == "another mesh":
        assert isinstance(error, CertificateRefused)
        assert f"is of the mesh another, this is {MESH}" in str(error)
    else:
        assert isinstance(error, Unavailable)
        assert "ARCHON_TLS names the folder of a certificate" in str(error)
        assert "`archon certs show`" in str(error)


async def test_the_error_of_a_client_says_which_side_has_no_tls_or_another_authority(
    encrypted: Encrypted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = encrypted.certificate(Kind.ADMIN, authority=Authority.create(MESH, now=now()))
    async with Client(encrypted.mesh.orchestrator.address, certificate=foreign) as client:
        with pytest.raises(Unavailable, match="its certificate is of another authority or member, or has expired"):
            await client.list_runs()
    monkeypatch.delenv("ARCHON_TLS")
    (tmp_path / "open").mkdir()
    own = encrypted.certificate(Kind.ADMIN)
    async with (
        InProcessMesh(tmp_path / "open") as mesh,
        Client(mesh.orchestrator.address, certificate=own) as client,
    ):
        with pytest.raises(Unavailable, match="it speaks no TLS: is the address right"):
            await client.list_runs()


async def test_a_member_at_the_address_of_another_is_not_called(encrypted: Encrypted) -> None:
    own = encrypted.certificate(Kind.ADMIN)
    for peer in (Peer("service", "memory"), Peer("agent", "worker"), ORCHESTRATOR):  # all of them answer here
        async with connect(encrypted.mesh.orchestrator.address, peer=peer, certificate=own) as channel:
            stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
            await stub.ListRuns(pb.ListRunsRequest(), timeout=5)
    async with connect(encrypted.mesh.orchestrator.address, peer=Peer("agent", "other"), certificate=own) as channel:
        stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
        with pytest.raises(Unavailable, match=f"Peer name other.agent.default.{MESH} is not in peer certificate"):
            await stub.ListRuns(pb.ListRunsRequest(), timeout=5)


async def test_an_agent_registers_the_role_of_its_certificate_alone(encrypted: Encrypted) -> None:
    certificate = encrypted.certificate(Kind.AGENT, "writer")
    async with connect(encrypted.mesh.registry.address, peer=REGISTRY, certificate=certificate) as channel:
        stub: Any = registry_service_pb2_grpc.RegistryServiceStub(channel)

        def request(role: str) -> registry.RegisterInstanceRequest:
            registration = Registration(role=role, instance_id=f"{role}-1", address="127.0.0.1:7999")
            return registry.RegisterInstanceRequest(registration=registration_to_proto(registration))

        answer = await stub.RegisterInstance(request("writer"))
        assert answer.registration.identity == "agent:writer"
        with pytest.raises(
            PermissionDenied, match="may not register the role 'reviewer'; roles of its credentials: wri"
        ):
            await stub.RegisterInstance(request("reviewer"))


async def test_certificates_are_renewed_under_load_without_losing_a_run_or_an_event(encrypted: Encrypted) -> None:
    client = Client(encrypted.mesh.orchestrator.address)
    before = CertificateFolder(encrypted.folder / "members").read()
    ended: list[str] = []

    async def runs(number: int) -> None:
        for each in range(12):
            handle = await client.submit(f"{number}-{each}", roles=["worker"])
            seqs = [event.seq async for event in handle.events() if event.seq]
            run = await client.get(handle.run_id)
            assert run.state is TaskState.COMPLETED, run.failure
            assert seqs == list(range(1, run.last_seq + 1))
            ended.append(run.run_id)

    async def rotations() -> None:
        for count in (8, 16, 24):

            async def reached(count: int = count) -> bool:
                return len(ended) >= count

            await eventually(reached, 30)
            encrypted.renew()

    await asyncio.gather(rotations(), *(runs(number) for number in range(4)))
    assert len(set(ended)) == 48
    assert CertificateFolder(encrypted.folder / "members").read().chain != before.chain
    await client.close()


async def test_a_token_says_who_calls_over_an_encrypted_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = TestKeys(tmp_path)
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    encrypted = Encrypted(tmp_path)
    monkeypatch.setenv("ARCHON_TLS", str(tmp_path / "members"))
    async with encrypted.mesh:
        viewer = keys.credentials(Principal(Kind.VIEWER, "vi"))
        async with Client(encrypted.mesh.orchestrator.address, credentials=viewer) as client:
            assert await client.list_runs() == []
            with pytest.raises(PermissionDenied, match="vi is of kind viewer"):
                await client.submit("x")


async def test_the_certificate_of_an_http_gateway_lets_no_caller_in(
    encrypted: Encrypted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The services of this mesh know certificates alone; the gateway was given keys that they have not."""
    keys = TestKeys(encrypted.folder)
    token = keys.token(Principal(Kind.VIEWER, "vi"))
    authenticator = own_authenticator()
    service = {"x509_pem_cert": [CertificateFolder(encrypted.folder / "members").read().chain]}
    forwarded = [("authorization", f"Bearer {token}"), (TOKEN_ONLY_KEY, "1")]
    method = "/archon.api.orchestrator.v1.OrchestratorService/SubmitRun"
    with pytest.raises(TokenInvalid, match="ARCHON_KEYS"):
        authenticator.caller(method, forwarded, lambda: service)
    assert authenticator.caller(method, forwarded[:1], lambda: service).identity == "service:of-tests"
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    settings = settings_for(encrypted.mesh)
    async with open_gateway(**settings) as address, httpx2.AsyncClient(base_url=f"http://{address}") as http:
        answer = await http.post(f"{method}", json={}, headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 403, "the gateway knows the viewer"
        operator = keys.token(Principal(Kind.OPERATOR, "olga"))
        answer = await http.post(f"{method}", json={}, headers={"authorization": f"Bearer {operator}"})
        assert (answer.status_code, "ARCHON_KEYS" in answer.json()["message"]) == (401, True)
        assert (await http.post(f"{method}", json={})).status_code == 401


async def test_health_alone_is_served_without_tls_on_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Encrypted(tmp_path)
    [port] = free_ports(1)
    monkeypatch.setenv("ARCHON_TLS", str(tmp_path / "members"))
    monkeypatch.setenv("ARCHON_HEALTH_PORT", str(port))
    async with AgentServer("worker", handler=echo), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        call: Any = channel.unary_unary("/archon.api.agent.v1.AgentService/Describe")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_process_without_a_usable_certificate_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHON_TLS", str(tmp_path / "nothing"))
    with pytest.raises(FailedPrecondition, match="cannot use the certificate in"):
        await AgentServer("worker", handler=echo).start()
    with pytest.raises(FailedPrecondition, match="cannot use the certificate in"):
        Client("127.0.0.1:1")
