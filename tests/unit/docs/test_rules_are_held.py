"""Each rule that the documentation calls held has a test that names it: `test_durability_N_...`,
`test_contract_rule_N_...`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAMES = "\n".join(
    name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
)


def durability_rules() -> list[int]:
    """Returns the rules that the status table calls held or partly held."""
    text = (ROOT / "docs" / "durability.md").read_text()
    rules: list[int] = []
    for row in re.findall(r"^\| (D[^|]*)\| (?:held|partly) \|", text, re.M):
        numbers = [int(number) for number in re.findall(r"D(\d+)", row)]
        rules += range(numbers[0], numbers[-1] + 1) if " to " in row else numbers
    return rules


def contract_rules() -> list[int]:
    """Returns all rules except those that the page calls planned, if there are any."""
    text = (ROOT / "docs" / "contract.md").read_text()
    planned = re.search(r"Planned:(.*?)\n\n", text, re.S)
    without = {int(number) for number in re.findall(r"rule (\d+) \(", planned.group(1) if planned else "")}
    return [int(number) for number in re.findall(r"^\*\*C(\d+)\.?", text, re.M) if int(number) not in without]


def test_each_held_rule_of_durability_is_named_by_a_test() -> None:
    assert [rule for rule in durability_rules() if f"durability_{rule}_" not in NAMES] == []


def test_each_served_rule_of_the_contract_is_named_by_a_test() -> None:
    assert [rule for rule in contract_rules() if f"contract_rule_{rule}_" not in NAMES] == []


def test_the_rules_are_read_from_the_pages() -> None:
    assert durability_rules() == list(range(1, 32))
    assert {1, 6, 7, 8, 9, 12} <= set(contract_rules())
