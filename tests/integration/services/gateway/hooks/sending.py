"""Senders of deliveries: signatures, and what the list of a hook has of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx2

from archon.client import Client
from archon.principal import Principal
from archon.types import HookDelivery
from archon_services.common import machine
from archon_services.orchestrator.hooks import signatures
from archon_services.orchestrator.hooks.hook import Scheme
from tests.fixtures.http_gateway import OPERATOR, GatewayMesh
from tests.fixtures.waiting import eventually

RUN: Final[Any] = {"roles": ["echo"]}
BODY: Final = b'{"x": "hi"}'
ADD: Final = "Say {{ body.x }}"

Send = Callable[..., Awaitable[httpx2.Response]]


def sign(
    secret: str, body: bytes = BODY, scheme: Scheme = Scheme.STANDARD, late: float = 0.0, **more: str
) -> dict[str, str]:
    """Returns the headers of a new delivery, signed `late` seconds ago."""
    return signatures.signed(scheme, secret, body, machine.wall_time() - late) | more


def client(served: GatewayMesh, caller: Principal = OPERATOR) -> Client:
    assert served.keys is not None
    return Client(served.mesh.orchestrator.address, credentials=served.keys.credentials(caller))


def reason(response: httpx2.Response) -> str:
    return str(response.json()["details"][0]["debug"]["reason"])


async def listed(hooks: Client, name: str, *states: str) -> list[HookDelivery]:
    """Waits until the deliveries of a hook, the newest first, have these states."""
    found: list[HookDelivery] = []

    async def has() -> bool:
        found[:] = [each async for each in hooks.hooks.deliveries(name)]
        return [each.state for each in found] == list(states)

    await eventually(has)
    return found
