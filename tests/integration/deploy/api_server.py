"""The API server of Kubernetes over a real etcd: without nodes, it admits objects and starts none."""

from __future__ import annotations

import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.fixtures.ports import free_ports
from tests.fixtures.require import require
from tests.fixtures.waiting import wait_until

HOST: Final = "127.0.0.1"


class ApiServer:
    """An API server that runs; `kubectl` calls it as an administrator."""

    def __init__(self, configuration: Path) -> None:
        self._command = [str(require("kubernetes", "kubectl", "kube-apiserver")), f"--kubeconfig={configuration}"]

    def kubectl(self, *parts: str, documents: list[dict[str, Any]] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs kubectl, with documents as its input."""
        text = None if documents is None else yaml.safe_dump_all(documents)
        return subprocess.run([*self._command, *parts], input=text, capture_output=True, text=True, timeout=120)


@contextmanager
def api_server(folder: Path) -> Iterator[ApiServer]:
    """Runs an API server for the time of the block. Skips the test without its program, or kubectl."""
    program = str(require("kubernetes", "kube-apiserver", "kubectl"))
    etcd = str(require("etcd-cluster", "etcd-3.6"))
    token = secrets.token_hex()
    client, peer, port = free_ports(3)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "accounts.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    clients, peers = f"http://{HOST}:{client}", f"http://{HOST}:{peer}"
    store = [
        *(etcd, f"--data-dir={folder}/etcd", f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
        *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
        f"--initial-cluster=default={peers}",
    ]
    server = [
        *(program, f"--etcd-servers={clients}", f"--bind-address={HOST}", f"--secure-port={port}"),
        *(f"--cert-dir={folder}/certificates", f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC"),
        *(f"--service-account-key-file={folder}/accounts.key", "--service-cluster-ip-range=10.0.0.0/24"),
        f"--service-account-signing-key-file={folder}/accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc",
    ]
    configuration = folder / "kubeconfig"
    configuration.write_text(yaml.safe_dump(_configuration(f"https://{HOST}:{port}", token)))
    with ExitStack() as stack:
        for name, command in (("etcd", store), ("kube-apiserver", server)):
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(process.wait, 10)
            stack.callback(process.kill)
        wait_until(lambda: _is_ready(f"https://{HOST}:{port}/readyz", token), within=90.0)
        yield ApiServer(configuration)


def _configuration(server: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }


def _is_ready(url: str, token: str) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it has made its certificate itself
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(
            urllib.request.Request(url, headers={"authorization": f"Bearer {token}"}), timeout=2
        ) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
