"""Several orchestrator processes on one PostgreSQL: they share the runs, and take over those of an owner that dies."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from archon.agent import Question, TaskContext
from archon.api.common.v1 import failure_pb2
from archon.client import Client, answer_text
from archon.errors import FailedPrecondition, RequestIdReused, Unavailable
from archon.types import Run, TaskState
from archon_services.testing import EtcdProcess
from tests.fixtures.mesh import Mesh
from tests.fixtures.replicas import ProcessReplicas, Replicas
from tests.fixtures.waiting import eventually, hold
from tests.integration.services.orchestrator.troupe import Troupe, of

pytestmark = pytest.mark.liveness

TAKEN_OVER_WITHIN = 6.0
PROMPTLY = 2.5
COMPLETED = TaskState.COMPLETED


async def begun(mesh: Mesh, role: str, count: int = 1) -> None:
    """Waits until `count` attempts at tasks of a role have begun."""

    async def look() -> bool:
        return sum(begun_role == role for begun_role, _ in mesh.executions("begin")) >= count

    await eventually(look, 10.0)


async def test_both_replicas_accept_runs_and_answer_for_each_other(replicas: Replicas) -> None:
    gate = asyncio.Event()
    await replicas.agent("cook", gate=gate)
    runs = await asyncio.gather(
        *(client.submit(f"dish {n}", roles=["cook"]) for n in range(4) for client in (replicas.client, replicas.other))
    )
    gate.set()
    for handle in runs:
        for client in (replicas.client, replicas.other):
            events = [event async for event in client.watch(handle.run_id)]
            durable = [event.seq for event in events if event.seq]
            assert durable == list(range(1, len(durable) + 1))
            run = await client.get(handle.run_id)
            assert run.state == COMPLETED
    listed = {run.run_id for run in await replicas.other.list_runs()}
    assert {handle.run_id for handle in runs} <= listed
    assert sorted(replicas.executions()) == [("cook", 1)] * 8


async def test_a_run_is_forked_at_a_replica_that_does_not_own_it(replicas: Replicas) -> None:
    await replicas.agent("first")
    await replicas.agent("second", "first", gate=asyncio.Event())
    source = await replicas.client.submit("x")
    await begun(replicas, "second")
    fork = await replicas.other.fork(source.run_id)
    await begun(replicas, "second", 2)
    run = await replicas.client.get(fork.run_id)
    assert run.parent_run_id == source.run_id
    assert [(task.role, task.attempt) for task in run.tasks] == [("first", 0), ("second", 1)]
    assert replicas.executions() == [("first", 1)]


async def test_durability_30_a_forwarded_watch_gives_transient_events(
    replicas: Replicas,
) -> None:
    async with AsyncExitStack() as stack:
        troupe, heard = Troupe(replicas, stack), asyncio.Event()

        async def poet(task: TaskContext) -> str:
            while not heard.is_set():  # the other replica learns the owner's address from a heartbeat
                task.write(".")
                await hold(0.05)
            for word in ("roses ", "are ", "red"):
                task.write(word)
            return "roses are red"

        await troupe("poet", poet)
        handle = await replicas.client.submit("x", roles=["poet"])
        words: list[str] = []
        seqs: list[int] = []

        async def watch() -> None:
            async for event in replicas.other.watch(handle.run_id):
                if event.seq:
                    seqs.append(event.seq)
                elif event.type == "text_delta":
                    words.append(event.proto.text_delta.text)
                    heard.set()

        await asyncio.wait_for(watch(), 20)
        assert "".join(words).lstrip(".") == "roses are red"
        assert seqs == list(range(1, len(seqs) + 1))


async def test_durability_13_forwarded_commands_reach_the_owner(replicas: Replicas) -> None:
    async with AsyncExitStack() as stack:
        troupe = Troupe(replicas, stack)

        async def clerk(task: TaskContext) -> str | Question:
            return f"answered {task.input_text}" if task.inputs else Question("which?")

        await troupe("clerk", clerk)
        handles = [await replicas.client.submit(f"x{n}", roles=["clerk"]) for n in range(2)]

        async def asking() -> bool:
            runs = [await replicas.other.get(handle.run_id) for handle in handles]
            return all(run.questions for run in runs)

        await eventually(asking)
        question = (await replicas.other.get(handles[0].run_id)).questions[0]
        await replicas.other.respond(handles[0].run_id, question.input_id, "this", request_id="q")
        assert answer_text(await handles[0].result(timeout=5)) == "answered this"
        await replicas.other.respond(handles[0].run_id, question.input_id, "this", request_id="q")
        with pytest.raises(RequestIdReused):
            await replicas.other.respond(handles[0].run_id, question.input_id, "that", request_id="q")
        began = time.monotonic()
        await replicas.other.cancel(handles[1].run_id, "enough")
        run = await handles[1].result(timeout=5)
        assert time.monotonic() - began < PROMPTLY
        assert run.state == TaskState.CANCELED


async def test_one_of_two_answers_at_two_replicas_is_accepted_and_the_other_refused(replicas: Replicas) -> None:
    async with AsyncExitStack() as stack:
        troupe = Troupe(replicas, stack)

        async def clerk(task: TaskContext) -> str | Question:
            return f"answered {task.input_text}" if task.inputs else Question("which?")

        await troupe("clerk", clerk)
        handles = [await replicas.client.submit(f"x{n}", roles=["clerk"]) for n in range(12)]

        async def asking() -> bool:
            return len(await replicas.other.list_questions()) == len(handles)

        await eventually(asking)

        async def answer(client: Client, run_id: str, text: str) -> str:
            """Returns the text if the answer was accepted."""
            try:
                await client.respond(run_id, f"{run_id}.1/q1", text)
            except FailedPrecondition:
                return ""
            return text

        async def race(number: int, run_id: str) -> None:
            here, there = answer(replicas.client, run_id, "here"), answer(replicas.other, run_id, "there")
            accepted = await asyncio.gather(*((here, there) if number % 2 else (there, here)))
            assert sorted(map(bool, accepted)) == [False, True], accepted
            run = await handles[number].result(timeout=10)
            assert answer_text(run) == f"answered {''.join(accepted)}"

        questions = await replicas.other.list_questions()
        assert {question.input_id for question in questions} == {f"{handle.run_id}.1/q1" for handle in handles}
        await asyncio.gather(*(race(number, handle.run_id) for number, handle in enumerate(handles)))


async def test_a_command_at_another_replica_says_that_the_run_has_ended(replicas: Replicas) -> None:
    gate = asyncio.Event()
    await replicas.agent("echo", gate=gate)
    handle = await replicas.client.submit("x", roles=["echo"])
    assert (await replicas.other.pause(handle.run_id)).paused
    assert not (await replicas.other.resume(handle.run_id)).paused
    outcomes = await asyncio.gather(
        replicas.client.cancel(handle.run_id, "enough"), replicas.other.pause(handle.run_id), return_exceptions=True
    )
    assert (await handle.result(timeout=10)).state == TaskState.CANCELED
    assert isinstance(outcomes[1], (FailedPrecondition, Run))
    with pytest.raises(FailedPrecondition, match="has ended"):
        await replicas.other.pause(handle.run_id)


async def test_durability_9_a_killed_owners_runs_are_taken_over(replicas: Replicas) -> None:
    gate = asyncio.Event()
    await replicas.agent("cook", gate=gate)
    await replicas.agent("waiter", "cook")
    handle = await replicas.client.submit("x", roles=["cook", "waiter"])
    await begun(replicas, "cook")
    await replicas.orchestrator.kill()
    killed = time.monotonic()

    async def taken_over() -> bool:
        async for event in replicas.other.watch(handle.run_id):
            if event.type == "claimed":
                return True
        return False

    assert await asyncio.wait_for(taken_over(), 10)
    assert time.monotonic() - killed < TAKEN_OVER_WITHIN
    gate.set()
    events = [event.proto async for event in replicas.other.watch(handle.run_id) if event.seq]
    assert events[-1].run_state.state == COMPLETED.proto
    assert not of(events, "lost")
    assert sorted(replicas.executions()) == [("cook", 1), ("waiter", 1)]


@pytest.mark.slow
async def test_durability_11_a_frozen_owner_is_replaced_without_harm(process_replicas: ProcessReplicas) -> None:
    replicas = process_replicas
    gate = asyncio.Event()
    await replicas.agent("cook", gate=gate)
    await replicas.agent("waiter", "cook")
    handle = await replicas.client.submit("x", roles=["cook", "waiter"])
    await begun(replicas, "cook")
    replicas.orchestrator.send(signal.SIGSTOP)
    events = []
    async for event in replicas.other.watch(handle.run_id):
        if event.seq:
            events.append(event)
        if event.type == "claimed":
            gate.set()
    assert events[-1].proto.run_state.state == COMPLETED.proto
    replicas.orchestrator.send(signal.SIGCONT)
    await hold(2.5)
    after = [event.seq async for event in replicas.other.watch(handle.run_id) if event.seq]
    assert len(after) == len(events), "the zombie has appended nothing"
    assert sorted(replicas.executions()) == [("cook", 1), ("waiter", 1)]
    again = await replicas.client.submit("y", roles=["waiter"], wait=10)
    assert again.run.state == COMPLETED, "the zombie continues as a new incarnation"


async def test_durability_10_sigterm_releases_all_runs_at_once(replicas: Replicas) -> None:
    gate = asyncio.Event()
    await replicas.agent("cook", gate=gate)
    handle = await replicas.client.submit("x", roles=["cook"])
    await begun(replicas, "cook")
    assert await replicas.orchestrator.stop() == 0
    stopped = time.monotonic()

    async def claimed() -> bool:
        try:
            async for event in replicas.other.watch(handle.run_id):
                if event.type == "claimed":
                    return True
        except Unavailable:
            pass
        return False

    assert await asyncio.wait_for(claimed(), 5)
    assert time.monotonic() - stopped < PROMPTLY, "it does not wait for the end of a lease"
    gate.set()
    assert (await replicas.other.get(handle.run_id)).tasks[0].attempt == 1
    events = [event async for event in replicas.other.watch(handle.run_id) if event.seq]
    assert events[-1].proto.run_state.state == COMPLETED.proto
    assert replicas.executions() == [("cook", 1)]


async def test_two_submits_with_one_id_on_two_replicas_make_one_run(replicas: Replicas) -> None:
    gate = asyncio.Event()
    await replicas.agent("cook", gate=gate)
    for number in range(10):
        gate.clear()
        both = await asyncio.gather(
            *(
                client.submit("x", roles=["cook"], request_id=f"q{number}")
                for client in (replicas.client, replicas.other)
            )
        )
        assert both[0].run_id == both[1].run_id
        gate.set()
        for handle in both:
            assert (await handle.result(timeout=10)).state == COMPLETED
    assert len(replicas.executions()) == 10


@pytest.mark.search
@pytest.mark.parametrize("ahead", [3600, -3600])
async def test_durability_23_a_wrong_clock_does_not_change_a_runs_time(
    etcd: EtcdProcess, postgres_dsn: str, tmp_path: Path, ahead: int
) -> None:
    mesh = ProcessReplicas(tmp_path, etcd.address)
    await mesh.start(ARCHON_JOURNAL=postgres_dsn)
    await mesh.start_second(postgres_dsn, "tests.fixtures.jumping_orchestrator", JUMPING_AHEAD=str(ahead))
    try:
        gate = asyncio.Event()
        await mesh.agent("cook", "absent", gate=gate)
        whole = await mesh.client.submit("x", roles=["cook"], timeout=60.0)
        short = await mesh.client.submit("x", roles=["absent"], timeout=10.0)
        began = time.time()
        own = await mesh.other.submit("x", roles=["cook"])
        created = (await mesh.client.get(own.run_id)).create_time
        assert abs(created - began) < 5, "create_time does not depend on the owner's clock"
        await begun(mesh, "cook", 2)
        await mesh.orchestrator.kill()
        gate.set()
        assert [event async for event in mesh.other.watch(whole.run_id)][-1].proto.run_state.state == COMPLETED.proto
        ended = [event async for event in mesh.other.watch(short.run_id)][-1]
        assert ended.proto.run_state.failure.reason == failure_pb2.ERROR_REASON_RUN_TIMEOUT
        assert abs(time.time() - began - 10) < 5
    finally:
        await mesh.stop()


@pytest.mark.search
async def test_a_question_outlives_its_owner_at_another_replica(replicas: Replicas) -> None:
    await replicas.agent_process(
        "payer",
        module="tests.fixtures.paying_agent",
        PAY_TIMEOUT="12",
        PAY_POLICY="default",
        PAY_DEFAULT="approve",
    )
    approved, silent = [await replicas.client.submit(f"{number}", roles=["payer"]) for number in range(2)]

    async def asking() -> bool:
        return len(await replicas.other.list_questions()) == 2

    await eventually(asking, 10.0)
    before = {question.run_id: question for question in await replicas.other.list_questions()}
    await replicas.orchestrator.kill()
    question = before[approved.run_id]

    async def answered() -> bool:
        try:
            await replicas.other.respond(approved.run_id, question.input_id, decision="approve", request_id="once")
        except Unavailable:
            return False
        return True

    await eventually(answered, 15.0)
    for handle in (approved, silent):  # the time of the second one passes at its new owner
        events = [event.proto async for event in replicas.other.watch(handle.run_id) if event.seq]
        assert events[-1].run_state.state == COMPLETED.proto
        (given,) = of(events, "input_given")
        assert given.input_given.identity == ("anonymous" if handle is approved else "")
    assert answer_text(await replicas.other.get(silent.run_id)) == "noted x; paid 5"
