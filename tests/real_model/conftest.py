"""The real model, one server per worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.mesh import own_mesh
from tests.real_model import server
from tests.real_model.server import RealModel

__all__ = ["own_mesh", "real_model"]


@pytest.fixture(scope="session")
def real_model() -> Iterator[RealModel]:
    """A server of the real model."""
    with server.real_model() as running:
        yield running
