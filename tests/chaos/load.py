"""The load during chaos: pipelines, delegations, questions that two people answer at once, and runs that are
canceled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client
from archon.errors import ArchonError, FailedPrecondition, UnknownRun
from tests.chaos.mesh import CLERK, LEADER, PIPELINE
from tests.failures.load import RETRY, Course, Load, Order

ASKED: Final = 0.2
DELEGATED: Final = 0.2
CANCELLED: Final = 0.08
CANCELLED_WITHIN: Final = 1.0


class MixedLoad(Load):
    """Submits a random mix of pipelines, delegating and asking runs, and cancels some of them. Each question gets an
    answer at each orchestrator at the same moment."""

    def __init__(self, clients: Sequence[Client], *, in_flight: int) -> None:
        super().__init__(clients, list(PIPELINE), in_flight=in_flight)

    def order(self) -> Order:
        cancelled_after = random.uniform(0.0, CANCELLED_WITHIN) if random.random() < CANCELLED else None
        kind = random.random()
        roles = (CLERK,) if kind < ASKED else (LEADER,) if kind < ASKED + DELEGATED else tuple(PIPELINE)
        return Order(roles, cancelled_after)

    def saw(self, course: Course, event: run_pb2.RunEvent) -> None:
        if event.HasField("input_requested"):
            input_id = event.input_requested.input_id
            for number, client in enumerate(self._clients, 1):
                answer = self._answer(course, client, input_id, f"{input_id} {event.seq} person {number}")
                self.beside(answer, f"answer {number}")

    async def _answer(self, course: Course, client: Client, input_id: str, request_id: str) -> None:
        """Answers until an orchestrator says what became of it: first at one's own, then at any."""
        while True:
            try:
                await client.respond(course.run_id, input_id, request_id, request_id=request_id)
                course.answers[request_id] = True
                return
            except (FailedPrecondition, UnknownRun):
                course.answers[request_id] = False
                return
            except ArchonError:
                await asyncio.sleep(RETRY)
                client = random.choice(self._clients)
