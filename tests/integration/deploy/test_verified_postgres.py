"""The variables by which the component `cloudnative-pg` has clients verify their PostgreSQL. The PostgreSQL of the tests has
no TLS: a server that accepts it, as the protocol of PostgreSQL begins, and reads the startup message takes its place."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from archon_services.local_mesh.authority import Authority
from archon_services.postgres.connections import dial
from archon_services.postgres.dsn import parse_dsn
from tests.fixtures.ports import free_ports
from tests.unit.deploy.certificates import issue
from tests.unit.deploy.kustomize_output import render, templates, variables


def served(folder: Path, name: str, *addresses: str) -> Path:
    """Issues the certificate of a server, of an authority of its own."""
    authority = Authority.create("postgresql", now=datetime.datetime.now(datetime.UTC))
    names = ["archon-postgresql-rw", "archon-postgresql-rw.archon"]
    spec = {"secretName": name, "commonName": "postgresql", "dnsNames": names, "usages": ["server auth"]}
    return issue(authority, {"spec": spec}, folder, *addresses)


@asynccontextmanager
async def listening(certificate: Path, started: list[bytes]) -> AsyncIterator[int]:
    """Serves the beginning of PostgreSQL's protocol and yields the port. `started` gets the startup messages that came over
    TLS; then connections end."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                assert (await reader.readexactly(8))[4:] == (80877103).to_bytes(4, "big")  # SSLRequest
                writer.write(b"S")
                await writer.start_tls(context)
                length = int.from_bytes(await reader.readexactly(4), "big")
                started.append(await reader.readexactly(length - 4))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client does not go on with this certificate
        finally:
            writer.close()

    (port,) = free_ports(1)
    async with await asyncio.start_server(serve, "127.0.0.1", port):
        yield port


async def test_a_server_proves_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = render("overlays/production", "cloudnative-pg")
    for workload in ("archon-orchestrator", "archon-memory"):
        values = variables(templates(documents)[workload]["spec"]["containers"][0])
        assert values["PGSSLMODE"] == "verify-full"
        assert values["PGSSLROOTCERT"].endswith("/ca.crt")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    own, other = served(tmp_path, "own", "127.0.0.1"), served(tmp_path, "other", "127.0.0.1")
    unnamed = served(tmp_path, "unnamed")
    for shown, trusted, is_taken in ((own, own, True), (own, other, False), (unnamed, unnamed, False)):
        monkeypatch.setenv("PGSSLROOTCERT", str(trusted / "ca.crt"))
        started: list[bytes] = []
        async with listening(shown, started) as port:
            with pytest.raises(asyncpg.ConnectionDoesNotExistError if is_taken else ssl.SSLCertVerificationError):
                await dial(parse_dsn(f"postgresql://archon:x@127.0.0.1:{port}/archon"), "tests")
        assert bool(started) == is_taken
        assert all(b"database\0archon\0" in message for message in started)
