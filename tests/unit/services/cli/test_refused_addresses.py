"""A command whose address refuses connections ends at once, instead of trying for as long as a call may take."""

from __future__ import annotations

import time

import pytest

from archon_services.cli.errors import UNREACHABLE, CliError
from archon_services.cli.main import app
from tests.fixtures.ports import free_ports
from tests.fixtures.variants import one_in

LIMIT = 9.0
"""Seconds, less than a call may take: a call that tries again does so for 10."""

COMMANDS = {
    "run": ("run", "a goal", "--orchestrator"),
    "run --detach": ("run", "a goal", "--detach", "--orchestrator"),
    "chat": ("chat", "designer", "--orchestrator"),
    "runs": ("runs", "--orchestrator"),
    "show": ("show", "last", "--orchestrator"),
    "watch": ("watch", "last", "--orchestrator"),
    "cancel": ("cancel", "last", "--orchestrator"),
    "pause": ("pause", "last", "--orchestrator"),
    "resume": ("resume", "last", "--orchestrator"),
    "rerun": ("rerun", "last", "--orchestrator"),
    "respond": ("respond", "last", "an answer", "--orchestrator"),
    "prompts": ("prompts", "last", "--orchestrator"),
    "trace": ("trace", "last", "--orchestrator"),
    "agents": ("agents", "--registry"),
    "tools": ("tools", "--registry"),
    "graph": ("graph", "--registry"),
    "memory get": ("memory", "get", "--session", "s", "--memory"),
}


@pytest.mark.parametrize("command", one_in(6, COMMANDS))
def test_a_refused_address_fails_at_once(command: str) -> None:
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"

    began = time.monotonic()
    with pytest.raises(CliError, match=f"^cannot reach the .* at {address}$") as raised:
        app([*COMMANDS[command], address], standalone_mode=False)
    assert raised.value.code == UNREACHABLE
    assert time.monotonic() - began < LIMIT
