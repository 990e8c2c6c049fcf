"""The arbiter of `archon up`: its own process, which is there only if it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.slow

ROLES = ("coder", "requirements", "arbiter")


def test_a_mesh_with_an_arbiter_asks_a_person_and_goes_on(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    roles = [word for role in ROLES for word in ("--role", role)]
    services = "etcd,registry,memory,orchestrator"
    started = terminal.archon("up", "--only", services, *roles, "--detach")
    assert started.code == 0, started.err
    try:
        assert {process.name.rpartition("-")[0] or process.name for process in terminal.state().processes} >= set(ROLES)
        ways = "dev.archon.arbiter/ways=method,person"
        pattern = "--pattern", "settled", "--role", "coder", "--role", "requirements", "--arbiter", "arbiter"
        detached = terminal.archon("run", "How many arches?", *pattern, "--metadata", ways, "--detach")
        assert detached.code == 0, detached.err
        with terminal.start("watch", "last") as watching:
            watching.until("question: Which answer is right: settled-1 or settled-2?")
            assert "Which answer is right: settled-1 or settled-2?" in terminal.archon("inbox").out
            assert "settled-1 of coder: Offline model" in terminal.archon("show", "last").out
            answered = terminal.archon("respond", "last", "settled-2")
            assert answered.code == 0, answered.err
            watching.until("settled by person for settled-2")
            watching.until("completed")
    finally:
        assert terminal.archon("down").code == 0
