"""The mesh that the tests of the command line share, for all commands that read or submit. A test makes its own runs,
and leaves the processes as they were. The fixtures end with the last test of this folder in a worker."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.asking_agents import ASKING, WRITING
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.fork_server import fork_server
from tests.fixtures.waiting import wait_until

GOAL = "Build a todo app. It must sync across devices. Users should see a history."
RULES = f"rules:\n  - {{trigger: checkpoint, role: {WRITING}, name: review, timeout: 900}}\n"


@pytest.fixture(scope="package")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal for a mesh of `archon up` with two designers, and with a rule for the role author."""
    home = tmp_path_factory.mktemp("mesh")
    (home / "rules.yaml").write_text(RULES)
    terminal = Terminal(home, ARCHON_RULES=str(home / "rules.yaml"))
    try:
        result = terminal.archon("up", "--replicas", "designer=2", "--detach")
        assert result.code == 0, result.err
        yield terminal
    finally:
        terminal.archon("down")
        assert not terminal.processes()


@pytest.fixture(scope="module")
def asking_agents(terminal: Terminal) -> Iterator[None]:
    """The agents of asking_agents, as members of the shared mesh: for a module, because a coordinator delegates to all
    roles."""
    environment = {**terminal.environment, "ARCHON_REGISTRY": terminal.state().registry}
    process = fork_server.fork("tests.e2e.asking_agents", (), environment, terminal.home / "asking-agents.log")
    try:
        wait_until(lambda: {*ASKING, WRITING} <= registered(terminal), within=PATIENCE)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    wait_until(lambda: not registered(terminal) & {*ASKING, WRITING}, within=PATIENCE)


def registered(terminal: Terminal) -> set[str]:
    """Returns the registered roles."""
    return {agent["role"] for agent in json.loads(terminal.archon("agents", "--json").out)}


@pytest.fixture(scope="package")
def finished(terminal: Terminal) -> str:
    """The id of a pipeline of requirements, designer and implementer for GOAL that has completed."""
    return completed(terminal)


@pytest.fixture(scope="package")
def delegated(terminal: Terminal) -> str:
    """The id of a run for GOAL by strategy agent that has completed: the coordinator has delegated three times."""
    return completed(terminal, "--strategy", "agent")


def completed(terminal: Terminal, *options: str) -> str:
    """Runs GOAL to its end; returns the id."""
    submitted = terminal.archon("run", GOAL, "--detach", *options)
    assert submitted.code == 0, submitted.err
    watched = terminal.archon("watch", submitted.out.strip())
    assert watched.code == 0, watched.err
    return submitted.out.strip()
