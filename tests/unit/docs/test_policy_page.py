"""docs/reference/policy.md is what the code gives."""

from __future__ import annotations

from tests.unit.docs import policy_page


def test_the_page_is_what_the_code_gives() -> None:
    assert policy_page.PAGE.read_text() == policy_page.page(), "run: python -m tests.unit.docs.policy_page"
