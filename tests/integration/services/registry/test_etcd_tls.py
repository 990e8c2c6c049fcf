"""A registry whose connections to a real etcd use mutual TLS."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from archon.errors import FailedPrecondition, InvalidArgument, Unavailable
from archon.principal import Kind
from archon.registry import Registration, RegistryClient
from archon.security.spiffe import SpiffeId
from archon_services.local_mesh.authority import Authority
from archon_services.registry import registry_app
from archon_services.registry.settings import RegistrySettings
from archon_services.registry.store.etcd_client import EtcdClient, parse_members
from archon_services.testing import EtcdProcess


def issue(authority: Authority, folder: Path, name: str, *names: str) -> Path:
    """Writes the certificate of a service to a folder."""
    identity = SpiffeId(authority.mesh, "default", Kind.SERVICE, name)
    authority.issue(folder / name, identity, now=datetime.datetime.now(datetime.UTC), names=names)
    return folder / name


async def test_the_registry_and_etcd_prove_who_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority.create("mesh", now=datetime.datetime.now(datetime.UTC))
    etcd = issue(authority, tmp_path, "etcd", "127.0.0.1")
    own = issue(authority, tmp_path, "registry")
    other = issue(Authority.create("mesh", now=datetime.datetime.now(datetime.UTC)), tmp_path / "other", "registry")
    files = ("--cert-file", str(etcd / "tls.crt"), "--key-file", str(etcd / "tls.key"))
    trusted = ("--client-cert-auth", "--trusted-ca-file", str(etcd / "ca.crt"))
    with EtcdProcess(certificate=own, arguments=(*files, *trusted)) as process:
        member = f"https://{process.address}"
        monkeypatch.setenv("ARCHON_TLS", str(own))
        async with (
            registry_app(RegistrySettings(etcd=member, port=0)) as address,
            RegistryClient(address) as client,
        ):
            await client.register(Registration(role="reviewer", instance_id="r-1", address="127.0.0.1:7999"))
            assert [each.instance_id for each in await client.list_instances()] == ["r-1"]
            issue(authority, tmp_path, "registry")  # renewed: the next calls use it
            await client.register(Registration(role="reviewer", instance_id="r-2", address="127.0.0.1:7998"))
            assert len(await client.list_instances()) == 2
        plain = EtcdClient([process.address])
        with pytest.raises(Unavailable):
            await plain.get(b"x")
        await plain.close()
        monkeypatch.setenv("ARCHON_TLS", str(other))
        stranger = EtcdClient([member])
        with pytest.raises(Unavailable):
            await stranger.get(b"x")
        await stranger.close()
    monkeypatch.delenv("ARCHON_TLS")
    with pytest.raises(FailedPrecondition, match="needs a certificate of this process"):
        EtcdClient([member])


def test_members_say_whether_they_are_encrypted() -> None:
    assert parse_members("https://a:1, http://b:2/,c:3") == ["https://a:1", "b:2", "c:3"]
    with pytest.raises(InvalidArgument):
        parse_members("https://")
