"""Validation: all violations of a request in one error."""

from __future__ import annotations

import pytest

from archon.errors import InvalidArgument
from archon_services.common.validation import Violations


def test_valid_request_raises_nothing() -> None:
    violations = Violations()
    violations.check(True, "field", "must be valid")
    violations.check_role("a-role-1", "role")
    violations.raise_if_any()


def test_the_error_has_all_violations_and_the_text_of_the_first() -> None:
    violations = Violations()
    violations.check(False, "first", "must be 1")
    violations.check_role("No Role", "role")
    with pytest.raises(InvalidArgument, match=r"^first: must be 1$") as caught:
        violations.raise_if_any()
    assert [violation.field for violation in caught.value.field_violations] == ["first", "role"]


@pytest.mark.parametrize("name", ["", "A", "1a", "-a", "a" * 64, "a b", "a_b"])
def test_invalid_role_name_is_a_violation(name: str) -> None:
    violations = Violations()
    violations.check_role(name, "role")
    with pytest.raises(InvalidArgument):
        violations.raise_if_any()
