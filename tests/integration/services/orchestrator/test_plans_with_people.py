"""Planned runs with a person in them, on two orchestrators: any of the processes is killed at every stage of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from archon import context
from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client, RunHandle, answer_text
from archon.errors import Unavailable
from archon.types import Run, RunQuestion, TaskState
from archon_services.testing import EtcdProcess
from tests.fixtures.plan_replies import reply, subtask
from tests.fixtures.replicas import ProcessReplicas
from tests.fixtures.services import ServiceProcess
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import of

pytestmark = pytest.mark.search

RULES: Final = "rules: [{trigger: plan, name: plans, approvers: [ann]}]"

PLANS: Final = [
    reply(subtask("flight"), subtask("hotel", "flight"), subtask("cruise", "hotel", critical=True), goal="a trip"),
    reply(subtask("tour", "hotel"), subtask("guide", "hotel"), goal="a trip"),
]
WITH_A_PERSON: Final = ("approval", "question")
STAGES: Final = ("plan-1", "approval", "flight", "question", "hotel-answered", "plan-2", "synthesis")
"""The planner plans, a person approves, the first step begins, the second one asks a person and goes on, the third one
has failed and the planner replans, the planner combines the results of the last two."""

ANSWER: Final = "tour(hotel(flight(), by the sea)) + guide(hotel(flight(), by the sea))"
FINISHED: Final = ("plan-1", "flight", "hotel-answered", "plan-2", "tour", "guide", "synthesis")
LOST: Final = {"planner": 3, "worker": 2, "orchestrator": 0}
"""Attempts of a run that end with the victim."""


class Trips(ProcessReplicas):
    """Two orchestrators with a rule, a planner and a worker."""

    reader: Client
    """Of an orchestrator that is not killed at the stage."""

    keys: TestKeys
    """Of the tokens of the mesh."""

    roles: dict[str, ServiceProcess]
    """The processes of the agents."""

    @property
    def gates(self) -> Path:
        """The folder of the gates that are open."""
        return self.home / "gates"

    async def open(self, dsn: str) -> None:
        """Starts all processes."""
        rules = self.home / "rules.yaml"
        rules.write_text(RULES)
        self.gates.mkdir()
        settings = {"ARCHON_RULES": str(rules), **self.keys.environment()}
        await self.start(ARCHON_JOURNAL=dsn, **settings)
        await self.start_second(dsn, **settings)
        self.reader = self.other
        self.roles = {role: await self.gated(role) for role in ("planner", "worker")}

    async def gated(self, role: str) -> ServiceProcess:
        """Starts an agent that waits at the gates of the stages."""
        return await self.agent_process(
            role,
            module="tests.fixtures.gated_agent",
            GATES=str(self.gates),
            GATED=",".join(STAGES),
            PLANS=json.dumps(PLANS),
        )

    def notes(self, run_id: str) -> Counter[tuple[str, str]]:
        """Returns how often the agents did what (begin, ask, fail, end), at which stage of a run."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return Counter((words[0], words[5]) for words in map(str.split, lines) if words[2].startswith(f"{run_id}."))


class Trip:
    """A run, as its caller and its person see it."""

    def __init__(self, mesh: Trips, handle: RunHandle) -> None:
        self.mesh = mesh
        self.run_id = handle.run_id
        self.questions: dict[str, RunQuestion] = {}

    async def reached(self, stage: str) -> None:
        """Waits until the run is at a stage."""

        async def at_work() -> bool:
            return bool(self.mesh.notes(self.run_id)["begin", stage])

        async def asked() -> bool:
            for question in (await self.mesh.reader.get(self.run_id)).questions:
                self.questions[stage] = question
            return stage in self.questions

        await eventually(asked if stage in WITH_A_PERSON else at_work, 20.0)

    async def go_on(self, stage: str) -> None:
        """Lets the agent at the stage go on, or answers its question as soon as an orchestrator takes the answer."""
        if stage not in WITH_A_PERSON:
            (self.mesh.gates / f"{self.run_id}-{stage}").touch()
            return
        input_id = self.questions[stage].input_id
        text, decision = ("", "approve") if stage == "approval" else ("by the sea", "")

        async def answered() -> bool:
            try:
                with context.serving(replace(context.current(), identity="ann")):
                    await self.mesh.reader.respond(self.run_id, input_id, text, decision=decision, request_id=stage)
            except Unavailable:
                return False
            return True

        await eventually(answered, 20.0)

    async def waits_unchanged(self, stage: str) -> None:
        """Checks that the question of the stage is still open, the same as before."""
        if stage in WITH_A_PERSON:
            assert list((await self.mesh.reader.get(self.run_id)).questions) == [self.questions[stage]]

    async def claimed(self, times: int) -> None:
        """Waits until the run was claimed so many times."""
        async with asyncio.timeout(20):
            async for event in self.mesh.reader.watch(self.run_id, durable_only=True):
                times -= event.type == "claimed"
                if not times:
                    return

    async def ended(self) -> tuple[Run, list[run_pb2.RunEvent]]:
        """Waits for the end of the run, and returns it with its events."""
        async with asyncio.timeout(30):
            events = [event.proto async for event in self.mesh.reader.watch(self.run_id, durable_only=True)]
        return await self.mesh.reader.get(self.run_id), events


@pytest.fixture
async def trips(
    etcd: EtcdProcess, postgres_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Trips]:
    """A mesh of the processes that take part in a trip."""
    mesh = Trips(tmp_path, etcd.address)
    mesh.keys = TestKeys(tmp_path)
    for name, value in mesh.keys.environment().items():  # of a service, which may act for people
        monkeypatch.setenv(name, value)
    await mesh.open(postgres_dsn)
    yield mesh
    await mesh.stop()


@pytest.mark.parametrize("victim", ["planner", "worker", "orchestrator"])
async def test_a_process_killed_at_every_stage_repeats_nothing(trips: Trips, victim: str) -> None:
    mesh = trips
    began = time.time()
    both = [Trip(mesh, await mesh.client.submit("a trip", strategy="plan")) for _ in range(2)]
    early, late = both
    owner, successor = (mesh.orchestrator, mesh.client), (mesh.second, mesh.other)
    for number, stage in enumerate(STAGES, start=1):
        await asyncio.gather(*(trip.reached(stage) for trip in both))
        process = owner[0] if victim == "orchestrator" else mesh.roles[victim]
        await process.kill()
        if victim == "orchestrator":
            owner, successor = successor, owner
            mesh.reader = owner[1]
            await asyncio.gather(early.go_on(stage), *(trip.claimed(number) for trip in both))
        else:
            await early.go_on(stage)
        await process.start()
        await late.waits_unchanged(stage)
        await late.go_on(stage)
    for trip in both:
        run, events = await trip.ended()
        assert (run.state, answer_text(run)) == (TaskState.COMPLETED, ANSWER)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert len(of(events, "claimed")) == (len(STAGES) if victim == "orchestrator" else 0)
        assert len(of(events, "lost")) == LOST[victim]
        done = {key: count for key, count in mesh.notes(trip.run_id).items() if key[0] != "begin"}
        assert done == {("end", stage): 1 for stage in FINISHED} | {("ask", "hotel"): 1, ("fail", "cruise"): 1}
        check_questions(trip, run, events, began)


def check_questions(trip: Trip, run: Run, events: Sequence[run_pb2.RunEvent], began: float) -> None:
    """Checks that each question was asked once and answered once, and that the journal says by whom and when."""
    ids = [trip.questions[stage].input_id for stage in WITH_A_PERSON]
    assert [event.approval_requested.input_id for event in of(events, "approval_requested")] == ids[:1]
    assert [event.input_requested.input_id for event in of(events, "input_requested")] == ids[1:]
    given = of(events, "input_given")
    assert [(event.input_given.input_id, event.input_given.identity) for event in given] == [
        (id_, "ann") for id_ in ids
    ]
    assert given[0].input_given.decision == question_pb2.DECISION_APPROVE
    assert given[1].input_given.parts[0].text == "by the sea"
    for event, stage in zip(given, WITH_A_PERSON, strict=True):
        asked = trip.questions[stage].create_time
        assert began <= asked <= event.time.ToNanoseconds() / 1e9 <= time.time()
    assert [question.input_id for question in run.closed_questions] == ids
