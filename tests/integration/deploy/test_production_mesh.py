"""The production overlay as processes on this machine: the entry points of the images, from the files that images contain,
with the variables of the manifests and certificates of their names."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import httpx2
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from archon.audit_client import AuditClient
from archon.client import Client
from archon.errors import ArchonError, PermissionDenied
from archon.history import AuditKey, PublicKeys, verify_run
from archon.principal import Kind, Principal
from archon.private_files import private_file
from archon.types import TaskState
from archon_services.common.sealing import Sealer
from archon_services.local_mesh.authority import Authority
from tests.fixtures.ports import free_ports
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually
from tests.integration.deploy.etcd_members import HOST, running
from tests.unit.deploy.certificates import issue
from tests.unit.deploy.kustomize_output import config, render, templates, variables
from tests.unit.deploy.manifests import DOCKERFILE, ROOT
from tests.unit.deploy.rules import GATEWAY, OURS

pytestmark = pytest.mark.search

PACKAGES: Final = ("sdk/python/archon", "mesh/archon_mesh", "services/archon_services")
"""The packages of the wheel, as pyproject.toml names them."""


def image(folder: Path) -> Path:
    """Makes an environment as the images have it: the packages without this repository. Returns its Python."""
    venv.create(folder / "archon", with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "archon")}))
    for package in PACKAGES:
        shutil.copytree(ROOT / package, packages / Path(package).name, ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "others.pth").write_text(
        sysconfig.get_path("purelib") + "\n"
    )  # a line of it alone: no editable package
    return folder / "archon" / "bin" / "python"


def command(name: str, python: Path) -> list[str]:
    """Returns the command of the image of a workload."""
    target = DOCKERFILE.read_text().split(f" AS {name.removeprefix('archon-')}\n")[1]
    [line] = re.findall(r"^ENTRYPOINT (.*)$", target, flags=re.MULTILINE)[:1]
    program, *arguments = json.loads(line)
    assert program == "python"
    return [str(python), *arguments]


NAMED: Final = {"sni_hostname": "gateway.service.default.archon"}
"""The name that a proxy verifies in the certificate of the gateway."""


class Production:
    """Processes of the overlay, by workload and number."""

    def __init__(self, folder: Path, etcd: str, dsn: str, certificates: Mapping[str, Path], stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._python = image(folder)
        self._documents = render("overlays/production")
        self._values = config(self._documents)
        self._certificates = certificates
        self.key = AuditKey.generate()
        """The key in the Secret archon-audit."""

        private_file(folder / "audit-key.pem")
        (folder / "audit-key.pem").write_bytes(self.key.pem)
        self.tokens = TestKeys(folder)
        """The keys in the Secret archon-keys."""

        Sealer.from_file(folder / "session.key")
        Sealer.from_file(folder / "hooks.key")
        free = iter(free_ports(40))
        names = [*sorted(OURS), "archon-orchestrator", "archon-designer"]
        self.ports = {(name, names[:at].count(name)): (next(free), next(free)) for at, name in enumerate(names)}
        self._places = {
            "archon-registry:7101": self.address("archon-registry"),
            "archon-memory:7102": self.address("archon-memory"),
            "archon-orchestrator:7100": self.address("archon-orchestrator"),
            self._values["etcd"]: etcd,
        }
        self._dsn = dsn
        self.processes: dict[tuple[str, int], subprocess.Popen[bytes]] = {}

    def address(self, name: str, number: int = 0) -> str:
        """Returns where a process listens."""
        return f"{HOST}:{self.ports[name, number][0]}"

    def _value(self, source: Any) -> str:
        if isinstance(source, str):
            return source
        if "configMapKeyRef" in source:
            value = self._values[source["configMapKeyRef"]["key"]]
            return self._places.get(value, value)
        if "secretKeyRef" in source:
            return self._dsn
        return HOST  # the address of its pod

    def environment(self, name: str, number: int) -> dict[str, str]:
        """Returns the variables of a process: those of the manifest, at ports and in folders of this machine."""
        [container] = templates(self._documents)[name]["spec"]["containers"]
        values = {key: self._value(source) for key, source in variables(container).items() if "OTEL" not in key}
        port, health = self.ports[name, number]
        home = self.home(name, number)
        home.mkdir()
        files = {
            "ARCHON_AUDIT_KEY": str(self._folder / "audit-key.pem"),
            "ARCHON_SESSION_KEY": str(self._folder / "session.key"),
            "ARCHON_HOOK_KEY": str(self._folder / "hooks.key"),
            "ARCHON_HTTP_TLS": str(self._certificates[name]),
            **self.tokens.environment(),
        }
        values |= {variable: path for variable, path in files.items() if variable in values}
        return {
            **values,
            "ARCHON_HOST": HOST,
            "ARCHON_PORT": str(port),
            "ARCHON_HEALTH_PORT": str(health),
            "ARCHON_TLS": str(self._certificates[name]),
            "ARCHON_HOME": str(home),
            "PATH": os.defpath,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def home(self, name: str, number: int) -> Path:
        """Returns the folder that is /var/lib/archon in the image."""
        return self._folder / f"{name}-{number}"

    def start(self, name: str, number: int) -> None:
        """Starts a process."""
        environment = self.environment(name, number)
        log = self._stack.enter_context((self._folder / f"{name}-{number}.log").open("wb"))
        process = subprocess.Popen(
            command(name, self._python),
            env=environment,
            cwd=self.home(name, number),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self._stack.callback(process.wait, 10)
        self._stack.callback(process.kill)
        self.processes[name, number] = process

    async def is_probed(self, name: str, number: int) -> bool:
        """Whether a probe of Kubernetes succeeds: at the health port, without a certificate."""
        assert self.processes[name, number].poll() is None, (self._folder / f"{name}-{number}.log").read_text()[-2000:]
        if name == GATEWAY:
            return await self.answers("/readyz") == 200
        async with grpc.aio.insecure_channel(f"{HOST}:{self.ports[name, number][1]}") as channel:
            try:
                stub: Any = health_pb2_grpc.HealthStub(channel)
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=2)
            except grpc.aio.AioRpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def http(self, token: str = "") -> httpx2.AsyncClient:
        """Returns a client of the gateway, as the proxy before it: it verifies the name in the certificate, and passes
        on the public name of the host."""
        headers = {"host": self._values["public-url"].removeprefix("https://")}
        headers |= {"authorization": f"Bearer {token}"} if token else {}
        trusted = ssl.create_default_context(cafile=str(self._certificates[GATEWAY] / "ca.crt"))
        return httpx2.AsyncClient(
            base_url=f"https://{self.address(GATEWAY)}", headers=headers, verify=trusted, timeout=60.0
        )

    async def answers(self, path: str, token: str = "", **body: Any) -> int:
        """Calls the gateway. Returns the status of its answer, 0 if there is none."""
        async with self.http(token) as http:
            try:
                request = http.build_request("POST" if body else "GET", path, json=body or None, extensions=NAMED)
                return (await http.send(request)).status_code
            except httpx2.ConnectError:
                return 0

    async def delivered(self, path: str, headers: Mapping[str, str], content: bytes) -> tuple[int, Any]:
        """Sends a delivery to the gateway, which needs no token. Returns the status and the content of its answer."""
        async with self.http() as http:
            request = http.build_request("POST", path, content=content, headers=dict(headers), extensions=NAMED)
            answer = await http.send(request)
            return answer.status_code, answer.json()


def person(authority: Authority, kind: str, folder: Path) -> Path:
    """Issues the certificate of a person, as the README says."""
    spec = {
        "secretName": kind,
        "commonName": "alice",
        "uris": [f"spiffe://archon/ns/default/{kind}/alice"],
        "dnsNames": [f"alice.{kind}.default.archon"],
        "usages": ["client auth"],
    }
    return issue(authority, {"spec": spec}, folder)


async def has_taken_deliveries(mesh: Production) -> None:
    """A hook that one replica has made is known to the other: each signs, and the gateway sends to either."""
    body = b'{"desk": "a lending desk"}'
    async with Client(mesh.address("archon-orchestrator", 0)) as client:
        await client.hooks.create("desk", "Draw {{ body.desk }}.", run={"roles": ["designer"]})
        _, first = await client.hooks.sign("desk", body)
    async with Client(mesh.address("archon-orchestrator", 1)) as client:
        path, second = await client.hooks.sign("desk", body)
        status, _ = await mesh.delivered(path, first | {"webhook-signature": "v1,bm8="}, body)
        assert status == 401
        runs: dict[str, set[str]] = {}
        for headers in (first, second, first):
            status, answer = await mesh.delivered(path, headers, body)
            assert (status, answer["state"]) in ((202, "accepted"), (200, "repeated")), answer
            runs.setdefault(headers["webhook-id"], set()).add(answer["run"])
        assert sorted(map(len, runs.values())) == [1, 1], "one run for each delivery"
        for [run_id] in runs.values():
            async with asyncio.timeout(60):
                assert [event async for event in client.watch(run_id)]
            assert (await client.get(run_id)).state == TaskState.COMPLETED


async def test_a_production_mesh_executes_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_dsn: str
) -> None:
    authority = Authority.create("archon", now=datetime.datetime.now(datetime.UTC))
    with ExitStack() as stack:
        async with running(tmp_path, authority=authority) as cluster:
            mesh = Production(tmp_path, cluster.address, postgres_dsn, cluster.folders, stack)
            for name, number in mesh.ports:
                mesh.start(name, number)
            for name, number in mesh.ports:
                await eventually(lambda name=name, number=number: mesh.is_probed(name, number), within=60.0, every=0.2)  # type: ignore[misc]

            monkeypatch.setenv("ARCHON_TLS", str(person(authority, "operator", tmp_path)))
            for number in (0, 1):
                async with Client(mesh.address("archon-orchestrator", number)) as client:
                    run = (await client.submit("a lending desk", roles=["requirements", "designer"], wait=60)).run
                    assert run.state == TaskState.COMPLETED
            async with Client(mesh.address("archon-orchestrator", 1)) as client:
                first = await client.submit("another one", roles=["designer"])
            async with Client(mesh.address("archon-orchestrator", 0)) as client:
                assert [event async for event in client.watch(first.run_id)], "a replica forwards what it does not own"
                assert (await client.get(first.run_id)).state == TaskState.COMPLETED
            async with AuditClient(mesh.address("archon-orchestrator", 0)) as auditor:
                history = await auditor.history(first.run_id)
            public = PublicKeys.parse(mesh.key.public_pem)
            report = verify_run(history.run_id, history.steps, public, last_seq=history.last_seq, ended=history.ended)
            assert (report.complete, report.fault) == (True, ""), "any replica has what another one has sealed"

            await has_taken_deliveries(mesh)

            monkeypatch.setenv("ARCHON_TLS", str(person(authority, "viewer", tmp_path)))
            async with Client(mesh.address("archon-orchestrator")) as client:
                with pytest.raises(PermissionDenied):
                    await client.submit("x", roles=["designer"])
            monkeypatch.delenv("ARCHON_TLS")
            async with Client(mesh.address("archon-orchestrator")) as client:
                with pytest.raises(ArchonError):
                    await client.list_runs()

            submit = "/archon.api.orchestrator.v1.OrchestratorService/SubmitRun"
            run_of_one: dict[str, Any] = {"goal": [{"text": "x"}], "roles": ["designer"], "wait": "60s"}
            operator = mesh.tokens.token(Principal(Kind.OPERATOR, "olga"))
            assert await mesh.answers(submit, operator, **run_of_one) == 200
            assert await mesh.answers(submit, mesh.tokens.token(Principal(Kind.VIEWER, "vera")), **run_of_one) == 403
            assert await mesh.answers(submit, **run_of_one) == 401

            for process in mesh.processes.values():
                process.send_signal(signal.SIGTERM)
            codes = {name: process.wait(60) for name, process in mesh.processes.items()}
            assert set(codes.values()) == {0}, codes
            written = {name for name in mesh.ports if os.listdir(mesh.home(*name))}
            assert written == {("archon-memory", 0)}, "the root of the others is read-only"


@pytest.mark.parametrize("name", sorted(OURS))
def test_an_image_does_not_start_without_tls_or_consent(name: str, tmp_path: Path) -> None:
    environment = {"PATH": os.defpath, "ARCHON_HOST": "0.0.0.0", "ARCHON_HOME": str(tmp_path), "ARCHON_ETCD": "memory"}
    done = subprocess.run(
        command(name, Path(sys.executable)), env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert f"set {'ARCHON_HTTP_TLS' if name == GATEWAY else 'ARCHON_TLS'}" in done.stderr
