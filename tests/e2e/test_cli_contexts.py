"""`archon context`: which mesh a command uses."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path / "home", XDG_CONFIG_HOME=str(tmp_path / "config"))
    try:
        yield terminal
    finally:
        terminal.environment["ARCHON_HOME"] = str(terminal.home)
        terminal.archon("down")
        assert not terminal.processes()


def file(terminal: Terminal) -> Path:
    return Path(terminal.environment["XDG_CONFIG_HOME"]) / "archon" / "contexts.json"


def test_contexts_are_set_used_listed_and_deleted(terminal: Terminal) -> None:
    assert "There are no contexts" in terminal.archon("context", "list").out
    assert terminal.archon("context", "current").code == 4
    assert terminal.archon("context", "set", "prod", "--orchestrator", "host-1:7100").code == 0
    assert terminal.archon("context", "set", "prod", "--registry", "host-1:7101").code == 0
    assert terminal.archon("context", "set", "here", "--home", "some/where").code == 0
    assert terminal.archon("context", "use", "prod").code == 0
    assert terminal.archon("context", "current").out == "prod\n"
    listed = json.loads(terminal.archon("context", "list", "--json").out)
    prod = {"orchestrator": "host-1:7100", "registry": "host-1:7101", "memory": "", "home": ""}
    prod = {**prod, "token_file": "", "issuer": "", "client_id": ""}
    assert listed["contexts"]["prod"] == prod
    assert listed["contexts"]["here"]["home"] == str(Path.cwd() / "some/where")
    assert stat.S_IMODE(file(terminal).stat().st_mode) == 0o600
    absent = terminal.archon("context", "use", "absent")
    assert (absent.code, absent.error_lines[1]) == (4, "hint: The contexts are here, prod.")
    for wrong in (["set", "x"], ["set", "a b", "--home", "x"], ["set", "x", "--memory", "nowhere"], ["use"]):
        assert terminal.archon("context", *wrong).code == 2, wrong
    assert terminal.archon("context", "delete", "prod").code == 0
    assert terminal.archon("context", "current").code == 4
    file(terminal).write_text("[]")
    assert terminal.archon("context", "list").error_lines[0] == f"error: {file(terminal)} is invalid"


def test_options_come_before_environment_context_and_folder(terminal: Terminal) -> None:
    assert terminal.archon("up", "--only", "registry", "--detach").code == 0
    registry = terminal.state().registry
    token = terminal.archon("token", "--kind", "viewer").out.strip()
    addresses = ("--registry", "127.0.0.1:1", "--orchestrator", "127.0.0.1:1")
    assert terminal.archon("context", "set", "gone", *addresses).code == 0
    assert terminal.archon("context", "use", "gone").code == 0
    assert terminal.archon("agents").code == 0, "ARCHON_HOME comes before the context"
    del terminal.environment["ARCHON_HOME"]
    gone = terminal.archon("agents")
    assert (gone.code, gone.error_lines[0]) == (3, "error: cannot reach the registry at 127.0.0.1:1")
    assert gone.error_lines[1].endswith("The context gone names it.")
    refused = terminal.archon("agents", "--registry", registry)
    assert (refused.code, "needs a token: `archon token`" in refused.err) == (1, True)
    terminal.environment["ARCHON_TOKEN"] = token
    assert terminal.archon("agents", "--registry", registry).code == 0
    elsewhere = terminal.archon("up", "--replicas", "designer=0", "--etcd", "127.0.0.1:1")
    assert elsewhere.error_lines[:2] == [
        "note: designer has no instance until `archon scale designer=1`",
        "note: commands go to the mesh of the context gone, not to this one",
    ]
    terminal.environment["ARCHON_REGISTRY"] = registry
    assert terminal.archon("agents").code == 0
    del terminal.environment["ARCHON_REGISTRY"]
    assert terminal.archon("context", "set", "lacking", "--memory", "127.0.0.1:1").code == 0
    assert terminal.archon("context", "use", "lacking").code == 0
    lacking = terminal.archon("runs")
    assert (lacking.code, lacking.error_lines[0]) == (
        3,
        "error: the context lacking has no address of the orchestrator",
    )
    assert terminal.archon("context", "set", "here", "--home", str(terminal.home)).code == 0
    assert terminal.archon("context", "use", "here").code == 0
    assert terminal.archon("agents").out == "No agents are registered.\n"
    assert terminal.archon("status").code == 0
    assert "3  the context in use" in terminal.archon("--help").out
