"""The contract in Java: its stubs and code that uses them compile."""

from __future__ import annotations

import pytest

from tests.interop import builds

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)  # Maven may have to fetch its plugins
def test_the_stubs_and_their_users_compile() -> None:
    classes = builds.JAVA.require().parents[3]
    services = {path.stem for path in classes.rglob("*ServiceGrpc.class")}
    protos = {path.stem for path in builds.PROTOS.rglob("*_service.proto")}
    assert len(services) == len(protos) > 10
