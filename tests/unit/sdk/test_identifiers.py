"""Names of roles, capabilities and versions: one rule, wherever a name is first seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.agent import AgentServer, AgentSettings
from archon.api.registry.v1.registry_pb2 import Registration
from archon.errors import InvalidArgument
from archon.identifiers import capability_fault, role_fault, suggested_role, version_fault
from archon.registry import Capability
from archon_mesh.declared import load_agent
from archon_mesh.node import Role
from archon_services.registry.api import validation
from tests.e2e.terminal import Terminal

REFUSED = ["my_agent", "Helper", "Größe", "1st", "a b", "-a", "", "a" * 64, "a\n", "a.b", "é"]


@pytest.mark.parametrize("name", ["a", "my-agent", "a1-", "a" * 63])
def test_lower_case_letters_digits_and_dashes_are_a_role(name: str) -> None:
    assert role_fault(name) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_role_is_refused_wherever_it_is_seen(name: str, tmp_path: Path) -> None:
    fault = role_fault(name)
    assert fault.startswith(f"invalid role name {name[:80]!r}: ")
    with pytest.raises(InvalidArgument, match="invalid role name"):
        AgentServer(name, settings=AgentSettings())
    with pytest.raises(InvalidArgument, match="invalid role name"):
        AgentServer("a", depends_on=[name], settings=AgentSettings())
    with pytest.raises(InvalidArgument, match="invalid role name"):
        AgentServer("a", settings=AgentSettings(depends_on=(name,)))
    with pytest.raises(InvalidArgument, match="invalid role name"):
        Role(name, "You help.")
    with pytest.raises(InvalidArgument, match="invalid role name"):
        validation.registration(Registration(role=name, instance_id="a-1", address="a:1"), tenant="", identity="")
    for text in (f"name: {name!r}\n", f"name: a\nrole:\n  depends_on: [{name!r}]\n"):
        (tmp_path / "a.yaml").write_text(text.replace("\\n", "\n").replace("'", '"'))
        with pytest.raises(InvalidArgument, match="invalid role name"):
            load_agent(tmp_path / "a.yaml")
    for option in ((), ("--python",)):
        made = Terminal(tmp_path).archon("new", "agent", "--dir", str(tmp_path / "new"), *option, "--", name)
        assert (made.code, "invalid role name" in made.err) == (2, True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "suggested"),
    [("my_agent", "my-agent"), ("Helper", "helper"), ("Größe", "grosse"), ("2nd try", "nd-try"), ("??", "")],
)
def test_a_similar_name_that_is_valid_is_suggested(name: str, suggested: str) -> None:
    assert suggested_role(name) == suggested
    assert (f"such as {suggested}" in role_fault(name)) is bool(suggested)


@pytest.mark.parametrize("name", ["Book.search", "", ".a", "a b", "a" * 129])
def test_a_refused_capability_is_refused_wherever_it_is_seen(name: str, tmp_path: Path) -> None:
    assert capability_fault(name)
    with pytest.raises(InvalidArgument, match="invalid capability"):
        AgentServer("a", capabilities=[Capability(name)], settings=AgentSettings())
    (tmp_path / "a.yaml").write_text(f'name: a\nrole:\n  capabilities: ["{name}"]\n')
    with pytest.raises(InvalidArgument, match="invalid capability"):
        load_agent(tmp_path / "a.yaml")


@pytest.mark.parametrize("version", ["1.0-beta", "v1", "1..2"])
def test_a_refused_version_is_refused_wherever_it_is_seen(version: str, tmp_path: Path) -> None:
    assert version_fault(version)
    with pytest.raises(InvalidArgument, match="invalid version"):
        AgentServer("a", version=version, settings=AgentSettings())
    (tmp_path / "a.yaml").write_text(f'name: a\nrole:\n  version: "{version}"\n')
    with pytest.raises(InvalidArgument, match="invalid version"):
        load_agent(tmp_path / "a.yaml")


def test_a_file_that_hides_a_module_is_not_written(tmp_path: Path) -> None:
    made = Terminal(tmp_path).archon("new", "agent", "json", "--python", "--dir", str(tmp_path / "new"))
    assert (made.code, "json.py" in made.err) == (2, True)
