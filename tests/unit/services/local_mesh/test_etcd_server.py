"""The bundled etcd: where it listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon import local_sockets
from archon.errors import InvalidArgument
from archon_services.local_mesh import Home, MeshOptions, make_plan
from archon_services.local_mesh.etcd_server import etcd_socket
from archon_services.registry.store.etcd_client import parse_members


def test_etcd_listens_on_sockets_in_a_folder_of_the_mesh_and_on_no_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    monkeypatch.setattr(local_sockets, "LONGEST", 500)  # the temporary folder may have a long path
    plan = make_plan(Home(folder), MeshOptions(free_ports=True))
    [etcd] = [spec for spec in plan.specs if spec.name == "etcd"]
    assert plan.etcd == etcd.address == f"unix:{folder}/sockets/etcd:1"
    assert etcd.folder == folder / "sockets"
    listens = [url for flag, url in zip(etcd.command, etcd.command[1:], strict=False) if flag.startswith("--listen")]
    assert listens == ["unix://etcd:1", "unix://etcd-peer:1"]
    [registry] = [spec for spec in plan.specs if spec.name == "registry"]
    assert registry.environment["ARCHON_ETCD"] == plan.etcd


def test_a_port_that_was_asked_for_is_used(tmp_path: Path) -> None:
    plan = make_plan(Home(tmp_path), MeshOptions(free_ports=True, ports={"etcd": 47_399}))
    assert plan.etcd == "127.0.0.1:47399"


@pytest.mark.parametrize(
    "folder", ["/" + "x" * 100, "/with space", "/with,comma", "/with%20percent", "/unicode-\u00e4"]
)
def test_a_path_that_is_no_address_gets_no_socket(folder: str) -> None:
    assert etcd_socket(Path(folder)) is None


def test_members_may_be_sockets() -> None:
    assert parse_members("unix:/run/m/etcd:1") == ["unix:/run/m/etcd:1"]
    for invalid in ("unix:", "unix:relative"):
        with pytest.raises(InvalidArgument):
            parse_members(invalid)
