"""The load during chaos: pipelines, delegations, and runs that are canceled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from archon.client import Client
from tests.chaos.mesh import LEADER, PIPELINE
from tests.failures.load import Load, Order

DELEGATED: Final = 0.2
CANCELLED: Final = 0.08
CANCELLED_WITHIN: Final = 1.0


class MixedLoad(Load):
    """Submits a random mix of pipelines and delegating runs, and cancels some of them."""

    def __init__(self, clients: Sequence[Client], *, in_flight: int) -> None:
        super().__init__(clients, list(PIPELINE), in_flight=in_flight)

    def order(self) -> Order:
        cancelled_after = random.uniform(0.0, CANCELLED_WITHIN) if random.random() < CANCELLED else None
        return Order((LEADER,) if random.random() < DELEGATED else tuple(PIPELINE), cancelled_after)
