"""What tests of sandboxed programs need."""

from __future__ import annotations

import pytest

from archon.errors import FailedPrecondition
from archon_mesh.tools.builtin.sandbox import check_available
from tests.fixtures.require import missing


@pytest.fixture(scope="session")
def sandbox() -> None:
    """User namespaces: many systems forbid them to users, and inside of containers."""
    try:
        check_available()
    except FailedPrecondition as error:
        missing("namespaces", error.message)
