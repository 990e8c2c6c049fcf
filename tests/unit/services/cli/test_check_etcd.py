"""etcd, as `archon doctor` finds it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate

import pytest

from archon_services.cli.checks import etcd
from archon_services.local_mesh import MeshState, ProcessState
from tests.unit.services.cli.found import answering, levels, said


@contextmanager
def etcd_of(version: str, at: float | None = None) -> Iterator[str]:
    """A server that says it is an etcd of this version, whose clock shows `at`. Yields its address."""
    date = formatdate(time.time() if at is None else at, usegmt=True)
    with answering(200, f'{{"etcdserver":"{version}"}}'.encode(), {"Date": date}) as (address, _):
        yield address


def test_an_old_etcd_is_a_warning_unless_it_is_the_bundled_one() -> None:
    with etcd_of("3.5.1") as address:
        found = etcd.check_members(address, None)
        assert levels(found) == ["warning"] and "3.5.6" in said(found)
        ours = MeshState(
            "ready", 1, "/nowhere", (ProcessState("etcd", "etcd", "healthy", address=address),), etcd=address
        )
        assert levels(etcd.check_members("", ours)) == ["ok"]
        assert levels(etcd.check_members(address, ours)) == ["warning"]
    with etcd_of("3.6.16") as address:
        assert levels(etcd.check_members(address, None)) == ["ok"]
        assert levels(etcd.check_members(f"{address},127.0.0.1:1", None)) == ["ok", "warning"]
    assert levels(etcd.check_members("127.0.0.1:1", None)) == ["problem"]
    assert levels(etcd.check_members("memory", None)) == ["warning"]
    assert etcd.check_members("", None) == []


@pytest.mark.parametrize(("ahead", "words"), [(120.0, "ahead of"), (-120.0, "behind")])
def test_a_clock_that_differs_from_etcds_is_a_warning(ahead: float, words: str) -> None:
    with etcd_of("3.6.16", time.time() + ahead) as address:
        found = etcd.check_members(address, None)
    assert [(one.check, one.level) for one in found] == [("etcd", "ok"), ("clock", "warning")]
    assert words in found[1].message


@pytest.mark.parametrize("body", [b"", b"[]", b"not json", b"\xff"])
def test_what_is_no_etcd_is_told_as_such(body: bytes) -> None:
    with answering(200, body, {"Date": "yesterday"}) as (address, _):
        assert levels(etcd.check_members(address, None)) in (["warning"], ["problem"])
    assert levels(etcd.check_members("nonsense", None)) == ["problem"]


def test_the_program_of_etcd_is_there_and_starts() -> None:
    found = etcd.check_program(needed=True)
    assert levels(found) == ["ok"] and "3.5.1" in said(found)
