"""The etcd of the production overlay lets in the registry alone, and its backup is restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import Unavailable
from archon.registry import Registration, RegistryClient
from archon_services.registry import registry_app
from archon_services.registry.settings import RegistrySettings
from archon_services.registry.store.etcd_client import EtcdClient
from tests.integration.deploy.etcd_members import etcdctl, made, running
from tests.unit.deploy.kustomize_output import render, templates

pytestmark = pytest.mark.slow


async def test_the_registry_is_let_in_and_other_members_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as cluster:
        monkeypatch.setenv("ARCHON_TLS", str(cluster.folders["archon-registry"]))
        async with (
            registry_app(RegistrySettings(etcd=cluster.address, port=0)) as address,
            RegistryClient(address) as client,
        ):
            await client.register(Registration(role="reviewer", instance_id="r-1", address="127.0.0.1:7999"))
            assert [each.instance_id for each in await client.list_instances()] == ["r-1"]
        for name in ("archon-designer", "archon-orchestrator", "archon-memory"):
            monkeypatch.setenv("ARCHON_TLS", str(cluster.folders[name]))
            for member in cluster.members:
                stranger = EtcdClient([f"https://{member}"])
                with pytest.raises(Unavailable):
                    await stranger.get(b"x")
                await stranger.close()


async def test_the_backup_of_etcd_is_restored(tmp_path: Path) -> None:
    [container] = templates(render("overlays/production"))["archon-backup"]["spec"]["initContainers"]
    async with running(made(tmp_path, "before")) as cluster:
        await etcdctl(cluster, "put", "/archon/v1/pinned", "kept")
        await etcdctl(
            cluster, *(part.replace("/backup/$(POD_NAME)", f"{tmp_path}/backup") for part in container["args"])
        )
        await etcdctl(cluster, "put", "/archon/v1/pinned", "lost")
    async with running(made(tmp_path, "after"), snapshot=tmp_path / "backup.etcd") as cluster:
        assert await etcdctl(cluster, "get", "/archon/v1/pinned", "--print-value-only") == "kept\n"
        await etcdctl(cluster, "put", "/archon/v1/pinned", "new")
