"""The pages on security name tests that exist; each threat has one, or is open; each finding has severity and status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
TESTS = {
    name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
}
FINDING = re.compile(r"^### (A-\d\d) .+\n\n(.*)$", re.M)


@pytest.mark.parametrize("page", ["security.md", "threat-model.md", "security-self-audit.md"])
def test_the_tests_that_a_page_on_security_names_exist(page: str) -> None:
    named = re.findall(r"`(test_\w+)`", (DOCS / page).read_text())
    assert named
    assert sorted({name for name in named if name not in TESTS}) == []


def test_each_threat_has_a_test_or_is_open() -> None:
    rows = re.findall(r"^\| ([STRIDE]) \| (.+) \| (.+) \|$", (DOCS / "threat-model.md").read_text(), re.M)
    assert len(rows) > 40
    assert {letter for letter, _, _ in rows} == set("STRIDE")
    assert [threat for _, threat, answer in rows if "`test_" not in answer and not answer.startswith("open")] == []


def test_each_finding_has_a_severity_and_a_status() -> None:
    text = (DOCS / "security-self-audit.md").read_text()
    listed = dict(re.findall(r"^\| (A-\d\d) \| .+? \| (.+?) \|", text, re.M))
    found = dict(FINDING.findall(text))
    assert len(found) > 8 and set(listed) == set(found)
    for number, line in found.items():
        match = re.match(r"Severity: (critical|high|medium|low|informational)\. Status: (fixed|open|accepted)\.", line)
        assert match, (number, line)
        assert listed[number] == match[1], number
        if match[2] == "fixed":
            whole = text.partition(f"### {number} ")[2].partition("\n### ")[0]
            assert "`test_" in whole or "`make " in whole, number


def test_the_policy_and_the_pages_refer_to_each_other() -> None:
    policy = (ROOT / ".github" / "SECURITY.md").read_text()
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", policy):
        assert (ROOT / ".github" / link).exists(), link
    assert "threat-model.md" in (DOCS / "security.md").read_text()
    assert "security-self-audit.md" in (DOCS / "threat-model.md").read_text()
