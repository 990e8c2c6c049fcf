"""Addresses that users give as host:port."""

from __future__ import annotations

import pytest

from archon_services.cli.errors import CliError
from archon_services.cli.target.mesh import checked_address


@pytest.mark.parametrize("address", ["127.0.0.1:7100", "[::1]:7100", "mesh.example:1"])
def test_an_address_with_a_port_is_accepted(address: str) -> None:
    assert checked_address(address) == address


@pytest.mark.parametrize("address", ["", "7100", ":7100", "host", "host:0", "host:x", "[::1]"])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(CliError, match=r"expected host:port, such as"):
        checked_address(address)


def test_an_ipv6_address_without_brackets_is_refused() -> None:
    with pytest.raises(CliError, match=r"such as \[::1\]:7100"):
        checked_address("::1:7100")
