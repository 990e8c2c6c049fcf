"""Options of gRPC channels."""

from __future__ import annotations

import ast
from pathlib import Path

from archon.channel import agent_options, service_options
from archon_services.registry.store import etcd_client

ROOT = Path(__file__).parents[3]
CREATORS = {"insecure_channel", "secure_channel"}


def test_no_channel_of_the_mesh_uses_a_proxy() -> None:
    for options in (service_options(), service_options("127.0.0.1:1"), agent_options(), etcd_client._OPTIONS):
        assert ("grpc.enable_http_proxy", 0) in options


def test_each_channel_of_a_product_is_created_with_options() -> None:
    calls: list[tuple[str, bool]] = []
    for package in ("sdk/python/archon", "mesh/archon_mesh", "services/archon_services"):
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in CREATORS:
                    calls.append((file.name, any(keyword.arg == "options" for keyword in node.keywords)))
    assert len(calls) >= 4
    assert [name for name, has_options in calls if not has_options] == []
