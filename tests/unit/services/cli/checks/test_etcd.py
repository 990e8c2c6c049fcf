"""Checks of etcd."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate

import pytest

from archon_services.cli.checks import etcd
from archon_services.local_mesh import MeshState, ProcessState
from tests.unit.services.cli.checks.findings import http_server, levels, texts


@contextmanager
def etcd_of(version: str, at: float | None = None) -> Iterator[str]:
    """Serves the version response of an etcd whose clock is at `at`. Yields its address."""
    date = formatdate(time.time() if at is None else at, usegmt=True)
    with http_server(200, f'{{"etcdserver":"{version}"}}'.encode(), {"Date": date}) as (address, _):
        yield address


def test_old_etcd_is_a_warning_unless_bundled() -> None:
    with etcd_of("3.5.1") as address:
        findings = etcd.check_members(address, None)
        assert levels(findings) == ["warning"] and "3.5.6" in texts(findings)
        state = MeshState(
            "ready", 1, "/nowhere", (ProcessState("etcd", "etcd", "healthy", address=address),), etcd=address
        )
        assert levels(etcd.check_members("", state)) == ["ok"]
        assert levels(etcd.check_members(address, state)) == ["warning"]
    with etcd_of("3.6.16") as address:
        assert levels(etcd.check_members(address, None)) == ["ok"]
        assert levels(etcd.check_members(f"{address},127.0.0.1:1", None)) == ["ok", "warning"]
    assert levels(etcd.check_members("127.0.0.1:1", None)) == ["problem"]
    assert levels(etcd.check_members("memory", None)) == ["warning"]
    assert etcd.check_members("", None) == []


@pytest.mark.parametrize(("ahead", "text"), [(120.0, "ahead of"), (-120.0, "behind")])
def test_clock_skew_of_etcd_is_a_warning(ahead: float, text: str) -> None:
    with etcd_of("3.6.16", time.time() + ahead) as address:
        findings = etcd.check_members(address, None)
    assert [(finding.check, finding.level) for finding in findings] == [("etcd", "ok"), ("clock", "warning")]
    assert text in findings[1].message


@pytest.mark.parametrize("body", [b"", b"[]", b"not json", b"\xff"])
def test_server_other_than_etcd_is_a_finding(body: bytes) -> None:
    with http_server(200, body, {"Date": "yesterday"}) as (address, _):
        assert levels(etcd.check_members(address, None)) in (["warning"], ["problem"])
    assert levels(etcd.check_members("nonsense", None)) == ["problem"]


def test_bundled_etcd_starts() -> None:
    findings = etcd.check_program(needed=True)
    assert levels(findings) == ["ok"] and "3.5.1" in texts(findings)
