"""Validation of requests: collects every invalid field before the request is refused."""

from __future__ import annotations

from archon.errors import FieldViolation, InvalidArgument
from archon.identifiers import role_fault


class Violations:
    """The field violations of one request."""

    def __init__(self) -> None:
        self._violations: list[FieldViolation] = []

    def check(self, valid: bool, field: str, description: str) -> None:
        """Records a violation unless `valid`."""
        if not valid:
            self._violations.append(FieldViolation(field, description))

    def check_role(self, name: str, field: str) -> None:
        """Records a violation unless `name` is a valid role name."""
        fault = role_fault(name)
        self.check(not fault, field, fault)

    def raise_if_any(self) -> None:
        """Raises InvalidArgument with all violations; the message names the first."""
        if self._violations:
            first = self._violations[0]
            raise InvalidArgument(f"{first.field}: {first.description}", field_violations=self._violations)
