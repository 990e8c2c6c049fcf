"""Settings of an agent process."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.agent import AgentServer, AgentSettings
from archon.errors import InvalidArgument
from archon.server import announce, withdraw
from archon_services.agents.settings import AgentServiceSettings
from archon_services.common.settings import load


def test_the_default_is_a_free_local_port_and_no_registry() -> None:
    assert AgentSettings.from_environment({}) == AgentSettings()
    empty = {"ARCHON_LOG_LEVEL": "", "ARCHON_LOG_FORMAT": "", "ARCHON_PORT": ""}
    assert AgentSettings.from_environment(empty) == AgentSettings()


def test_every_variable_is_read(tmp_path: Path) -> None:
    environment = {
        "ARCHON_HOST": "0.0.0.0",
        "ARCHON_PORT": "7201",
        "ARCHON_REGISTRY": "registry:7101",
        "ARCHON_ADVERTISE": "agent-1",
        "ARCHON_DEPENDS_ON": " requirements, designer ,",
        "ARCHON_MAX_TASKS": "4",
        "ARCHON_TTL": "2.5",
        "ARCHON_LOG_LEVEL": "DEBUG",
        "ARCHON_READY_FILE": str(tmp_path / "ready"),
        "ARCHON_DRAIN": "1.5",
        "ARCHON_LOG_FORMAT": "text",
    }
    settings = AgentSettings.from_environment(environment)
    expected = AgentSettings(
        "0.0.0.0",
        7201,
        "registry:7101",
        "agent-1",
        ("requirements", "designer"),
        4,
        2.5,
        "debug",
        tmp_path / "ready",
        1.5,
        "text",
    )
    assert settings == expected
    assert settings.advertised(7201) == "agent-1:7201"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ARCHON_PORT", "70000"),
        ("ARCHON_PORT", "80.5"),
        ("ARCHON_MAX_TASKS", "-1"),
        ("ARCHON_TTL", "soon"),
        ("ARCHON_TTL", "nan"),
        ("ARCHON_LOG_LEVEL", "loud"),
        ("ARCHON_LOG_FORMAT", "xml"),
        ("ARCHON_DRAIN", "-1"),
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} is '{value}'"):
        AgentSettings.from_environment({name: value})


def test_a_port_variable_set_by_kubernetes_is_ignored() -> None:
    assert AgentSettings.from_environment({"ARCHON_PORT": "tcp://10.0.0.1:7001"}).port == 0


@pytest.mark.parametrize(
    ("depends_on", "upstreams"), [(None, ["author"]), ((), []), (("critic", "author"), ["critic", "author"])]
)
def test_the_environment_may_replace_a_roles_dependencies(
    depends_on: tuple[str, ...] | None, upstreams: list[str]
) -> None:
    agent = AgentServer("translator", depends_on=["author"], settings=AgentSettings(depends_on=depends_on))
    assert [dependency.role for dependency in agent.registration.depends_on] == upstreams


def test_the_address_is_announced_in_a_complete_file(tmp_path: Path) -> None:
    announce(tmp_path / "ready", "127.0.0.1:7201")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("ready", "127.0.0.1:7201")]
    withdraw(tmp_path / "ready")
    withdraw(tmp_path / "ready")
    assert list(tmp_path.iterdir()) == []


def test_flags_precede_environment_and_environment_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARCHON_CONFIG", "ARCHON_MODEL", "ARCHON_MAX_TASKS", "ARCHON_DEPENDS_ON", "ARCHON_TTL"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "archon.yaml"
    config.write_text("agents: {model: openai/a, max_tasks: 2, ttl: 5, depends_on: [requirements, critic]}\n")
    monkeypatch.setenv("ARCHON_CONFIG", str(config))
    monkeypatch.setenv("ARCHON_MAX_TASKS", "3")
    settings = load(AgentServiceSettings, ["--model", "openai/b", "--registry", "here:1"])
    agent = settings.agent_settings()
    assert (settings.model, agent.max_tasks, agent.ttl, agent.registry) == ("openai/b", 3, 5.0, "here:1")
    assert agent.depends_on == ("requirements", "critic")
