"""Rules in YAML: of the mesh, and of an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument, NotFound
from archon_mesh.core.people import Condition, InterceptionRule, TimeoutPolicy, Trigger
from archon_mesh.declared import load_agent, load_rules


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_rules_are_loaded_in_their_order(tmp_path: Path) -> None:
    path = write(
        tmp_path / "rules.yaml",
        """
rules:
  - trigger: confidence
    confidence_below: 0.6
    priority: 3
    name: unsure
    approvers: [ann, bob]
    timeout: 60
    on_timeout: escalate
  - trigger: error
    severity_at_least: high
    role: build*
""",
    )
    first, second = load_rules(path)
    assert first == InterceptionRule(
        Trigger.CONFIDENCE,
        Condition(confidence_below=0.6),
        3,
        "unsure",
        ("ann", "bob"),
        60.0,
        TimeoutPolicy.ESCALATE,
    )
    assert (second.trigger, second.condition) == (Trigger.ERROR, Condition("build*", severity_at_least=3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules:\n  - trigger: plan\n    timeout: -1\n", "rules.yaml:3: rules.0.timeout: must be greater than 0"),
        ("rules:\n  - trigger: plans\n", "rules.yaml:2: rules.0.trigger: must be"),
        ("rules:\n  - trigger: plan\n    step: x\n", "rules.yaml:3: rules.0.step: has no meaning"),
        ("rules:\n  - trigger: confidence\n", "rules.yaml:2: rules.0.confidence_below: is missing"),
        ("rules:\n  - trigger: tool\n", "rules.yaml:2: rules.0.trigger: must be"),
        ("rules:\n  - trigger: plan\n    aprovers: [x]\n", "did you mean approvers?"),
        ("- 1\n", "rules.yaml:1"),
    ],
)
def test_a_mistake_has_file_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "rules.yaml", text)
    with pytest.raises(InvalidArgument) as refused:
        load_rules(path)
    assert message in refused.value.message


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_rules(tmp_path / "none.yaml")


def test_the_file_of_an_agent_has_rules_for_its_tools(tmp_path: Path) -> None:
    text = "name: clerk\nmodel: offline\nrules:\n  - {tool: 'mail.*', name: mail}\n"
    agent = load_agent(write(tmp_path / "clerk.yaml", text)).agent
    assert [(rule.name, rule.condition.tool) for rule in agent.rules] == [("mail", "mail.*")]
    wrong = write(tmp_path / "wrong.yaml", text.replace("name: mail", "on_timeout: default"))
    with pytest.raises(InvalidArgument, match=r"wrong.yaml:4: rules.0.default: is missing"):
        load_agent(wrong)
